# SPDX-License-Identifier: Apache-2.0
#
# Sourced. Linux groups the processes of a session for its scheduler (autogroup). With that, Linux 6.18 was seen to leave its own
# threads without a CPU for up to 71 seconds ("workqueue lockup") while a session had busy loops and tests on two CPUs, and etcd with
# them: 7 tests of whole bridges failed in 2 runs so, and without it none for that reason in 3. fair ends it until unfair.
autogroup=/proc/sys/kernel/sched_autogroup_enabled was=

fair() {
	if [[ -w $autogroup ]]; then
		was=$(<$autogroup)
		{ echo 0 >$autogroup; } 2>/dev/null || was=
	fi
}

unfair() {
	[[ -z $was ]] || echo "$was" >$autogroup
}
