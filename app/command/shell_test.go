// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"causeway/app/command"
)

// subcommands are some of the program's own.
var subcommands = []command.Subcommand{{Name: "ctl", Words: []string{"-s", "-json", "-f"}}, {Name: "run", Words: []string{"-c"}}, {Name: "check", Words: []string{"-here"}}}

// completions maps lines to what a Tab completes them to, in every shell.
var completions = map[string]string{
	"causeway r":                             "causeway run",
	"causeway ctl sho":                       "causeway ctl show",
	"causeway ctl -s /x show ho":             "causeway ctl -s /x show hosts",
	"causeway ctl set log level d":           "causeway ctl set log level debug",
	"causeway ctl show hosts l":              "causeway ctl show hosts limit",
	"causeway ctl capture drop icr":          "causeway ctl capture drop icrc",
	"causeway ctl capture drop icrc dir":     "causeway ctl capture drop icrc direction",
	"causeway ctl -js":                       "causeway ctl -json",
	"causeway ctl -f si":                     "causeway ctl -f site.toml",
	"causeway run -":                         "causeway run -c",
	"causeway check site":                    "causeway check site.toml",
	"causeway check ":                        "causeway check site.toml",
	"causeway check -here site":              "causeway check -here site.toml",
	"causeway ctl trace host 10.9.0.1 qpn 0": "causeway ctl trace host 10.9.0.1 qpn 0",
}

// TestCompletion makes the real shells complete lines, in a folder with one file.
func TestCompletion(t *testing.T) {
	for _, shell := range command.Shells {
		t.Run(shell, func(t *testing.T) {
			if _, err := exec.LookPath(shell); err != nil {
				t.Skipf("%v: make deps installs it", err)
			}
			text, err := command.Standard.Completion(shell, subcommands)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range command.Standard.Commands {
				if !strings.Contains(text, " ctl "+c.Path) {
					t.Errorf("no %s", c.Path)
				}
			}
			dir := t.TempDir()
			script := filepath.Join(dir, "lib", "_causeway")
			for name, text := range map[string]string{script: text, filepath.Join(dir, "here", "site.toml"): ""} {
				if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			var lines []string
			for line := range completions {
				lines = append(lines, line)
			}
			for _, sourced := range []bool{true, false} {
				if sourced || shell == "zsh" {
					checkCompleted(t, lines, tab(t, shell, script, filepath.Join(dir, "here"), sourced, lines))
				}
			}
		})
	}
	if _, err := command.Standard.Completion("tcsh", subcommands); err == nil {
		t.Error("tcsh is completed")
	}
}

func checkCompleted(t *testing.T, lines, got []string) {
	t.Helper()
	if len(got) != len(lines) {
		t.Fatalf("%d of %d lines came: %q", len(got), len(lines), got)
	}
	for i, line := range lines {
		if want := completions[line]; strings.TrimSpace(got[i]) != want {
			t.Errorf("%q completes to %q, want %q", line, got[i], want)
		}
	}
}

// tab returns what each line is after a Tab in a shell that has sourced the script or, for zsh, finds it in fpath.
func tab(t *testing.T, shell, script, dir string, sourced bool, lines []string) []string {
	t.Helper()
	drive := map[string]string{"bash": driveBash, "fish": driveFish, "zsh": driveZsh}[shell]
	args := append([]string{"-c", drive}, lines...)
	if shell != "fish" {
		args = append([]string{"-c", drive, shell}, lines...)
	}
	cmd := exec.Command(shell, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "SCRIPT="+script, fmt.Sprintf("SOURCED=%t", sourced), "HOME="+dir, "TERM=dumb", "XDG_CONFIG_HOME="+dir+"/../lib", "XDG_DATA_HOME="+dir+"/../lib")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var got []string
	for line := range strings.Lines(string(out)) {
		if _, after, ok := strings.Cut(line, "completed<"); ok {
			of, _, _ := strings.Cut(after, ">")
			got = append(got, of)
		}
	}
	return got
}

// A bash that is not interactive is called as readline calls it, and completes files where the function offers nothing.
const driveBash = `
source "$SCRIPT"
complete -p causeway | grep -q -- '-o default' || exit 1
for line; do
	read -ra COMP_WORDS <<<"$line"
	[[ $line == *' ' ]] && COMP_WORDS+=('')
	COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMPREPLY=()
	_causeway
	[[ ${#COMPREPLY[@]} == 0 ]] && COMPREPLY=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}"))
	[[ ${#COMPREPLY[@]} == 1 ]] && COMP_WORDS[COMP_CWORD]=${COMPREPLY[@]}
	echo "completed<${COMP_WORDS[*]}>"
done`

// fish can complete a line given as an argument.
const driveFish = `
source $SCRIPT
for line in $argv
	set -l found (complete -C "$line" | string replace -r '\t.*' '')
	set -l begun (string split -r -m1 ' ' -- $line)[1]
	test (count $found) -eq 1; and set line "$begun $found"
	echo "completed<$line>"
end`

// zsh completes only in its line editor, on a terminal.
const driveZsh = `
zmodload zsh/zpty
zpty edited zsh -f -i
zpty -w edited "unset zle_bracketed_paste; PS1= PS2= fpath=(${SCRIPT:h} \$fpath); autoload -U compinit; compinit -u -D"
[[ $SOURCED == true ]] && zpty -w edited "unfunction _causeway; source $SCRIPT"
for line; do
	zpty -w -n edited "$line"$'\t'
	sleep 0.1
	zpty -w edited $'\x01print "comple""ted<\x05>"'
done
zpty -w edited 'print en""d'
text=
while zpty -r edited part; do
	text+=$part
	[[ $text == *$'\n'end* ]] && break
done
print -r -- $text`
