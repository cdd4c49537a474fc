// SPDX-License-Identifier: Apache-2.0
//
// with-capabilities COMMAND: runs a command with all capabilities that this program's file and the container allow.
//
// Container engines give the capabilities of --cap-add to root only. A process of another user gets them by executing a
// file with capabilities. If the file had them as effective, exec(2) would fail in a container that lacks one of them,
// even for "causeway version". So the file has them as permitted only, and this program makes them ambient
// (capabilities(7)), so that they survive exec. When one is missing, causeway reports what it needs it for.

#include <linux/capability.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void raise_permitted(void)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct set[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &header, set) != 0)
		return;
	for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		set[i].inheritable = set[i].permitted;
		set[i].effective = set[i].permitted;
	}
	if (syscall(SYS_capset, &header, set) != 0)
		return;
	for (int c = 0; c <= CAP_LAST_CAP; c++)
		if (set[CAP_TO_INDEX(c)].permitted & CAP_TO_MASK(c))
			prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, c, 0, 0);
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		fputs("usage: with-capabilities COMMAND [ARGUMENT...]\n", stderr);
		return 2;
	}
	raise_permitted();
	execvp(argv[1], argv + 1);
	perror(argv[1]);
	return 127;
}
