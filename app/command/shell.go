// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"slices"
	"strings"
)

// A Subcommand is a subcommand of the program, for completion.
type Subcommand struct {
	Name  string
	Help  string
	Words []string // flags and other words that may follow
}

// Shells are the shells that Completion supports.
var Shells = []string{"bash", "zsh", "fish"}

// A step is the words that may follow a path of words.
type step struct {
	path  string // "ctl show"
	words []string
}

// steps returns all steps: those of the program's subcommands and, after ctl, of the console's commands.
func (t *Table) steps(subcommands []Subcommand) (all []step) {
	var names []string
	for _, s := range subcommands {
		names = append(names, s.Name)
	}
	all = append(all, step{"", names})
	for _, s := range subcommands {
		words := slices.Clone(s.Words)
		switch s.Name {
		case "ctl":
			words = append(words, t.root.words()...)
		case "help":
			words = append(words, names...)
		}
		all = append(all, step{s.Name, words})
	}
	return append(all, t.root.steps("ctl")...)
}

func (n *node) steps(path string) (all []step) {
	for _, c := range n.children {
		at := path + " " + c.word
		words := c.words()
		if c.command != nil {
			for i := range c.command.Args {
				a := &c.command.Args[i]
				if a.Key != "" {
					words = append(words, a.Key)
				} else {
					words = append(words, a.Kind.Words...)
				}
			}
		}
		all = append(all, step{at, words})
		if c.command != nil {
			for i := range c.command.Args {
				if a := &c.command.Args[i]; a.Key != "" && a.Kind.Words != nil {
					all = append(all, step{at + " … " + a.Key, a.Kind.Words})
				}
			}
		}
		all = append(all, c.steps(at)...)
	}
	return all
}

// Completion returns the completion script of a shell. The script needs no running bridge.
func (t *Table) Completion(shell string, subcommands []Subcommand) (string, error) {
	steps := t.steps(subcommands)
	switch shell {
	case "bash":
		return bashCompletion(steps), nil
	case "zsh":
		return zshCompletion(steps), nil
	case "fish":
		return fishCompletion(steps), nil
	}
	return "", usagef("unknown shell %q: %s", shell, oneOf(Shells))
}

// The scripts look up the longest known path in the words before the cursor, flags left out; after a key with words of
// its own, that key. Flags are offered once a dash is typed, and files after -f and where nothing else can follow.

func bashCompletion(steps []step) string {
	return "# Made by \"causeway completion\": source it, or put it where bash-completion looks.\n_causeway() {\n" +
		"\tlocal cur=${COMP_WORDS[COMP_CWORD]} at= next= w prev=\n" +
		"\t[[ ${COMP_WORDS[COMP_CWORD-1]} == -f ]] && return\n" +
		"\tfor w in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n\t\tcase $w in -*) continue ;; esac\n" +
		"\t\tprev=$w\n\t\t_causeway_words \"$at $w\" && at=\"$at $w\"\n\tdone\n" +
		"\t_causeway_words \"$at … $prev\" || _causeway_words \"$at\"\n" +
		"\tCOMPREPLY=($(compgen -W \"$next\" -- \"$cur\"))\n" +
		"\tcase $cur in -*) return ;; esac\n" +
		"\tfor w in \"${!COMPREPLY[@]}\"; do\n\t\tcase ${COMPREPLY[w]} in -*) unset \"COMPREPLY[w]\" ;; esac\n\tdone\n}\n" +
		wordsFunction(steps) + "complete -o default -F _causeway causeway\n"
}

// zshCompletion works sourced after compinit, and as a file _causeway in fpath, where loading it is also its first
// call.
func zshCompletion(steps []step) string {
	return "#compdef causeway\n# Made by \"causeway completion\": source it after compinit, or put it as _causeway into a folder of fpath.\n_causeway() {\n" +
		"\tlocal at= next= w prev=\n\tlocal -a flags others\n" +
		"\tif [[ $words[CURRENT-1] == -f ]]; then _files; return; fi\n" +
		"\tfor w in \"${(@)words[2,CURRENT-1]}\"; do\n\t\tcase $w in -*) continue ;; esac\n" +
		"\t\tprev=$w\n\t\t_causeway_words \"$at $w\" && at=\"$at $w\"\n\tdone\n" +
		"\t_causeway_words \"$at … $prev\" || _causeway_words \"$at\"\n" +
		"\tflags=(${(M)${=next}:#-*}) others=(${${=next}:#-*})\n" +
		"\tif [[ $PREFIX == -* ]]; then compadd -- $flags; elif (( $#others )); then compadd -- $others; else _files; fi\n}\n" +
		wordsFunction(steps) + "if [[ $funcstack[1] == _causeway ]]; then _causeway \"$@\"; else compdef _causeway causeway; fi\n"
}

// wordsFunction returns the steps as a function for bash and zsh: it sets $next to the words after the path $1, and
// fails for an unknown path.
func wordsFunction(steps []step) string {
	var b strings.Builder
	b.WriteString("_causeway_words() {\n\tcase $1 in\n")
	for _, s := range steps {
		fmt.Fprintf(&b, "\t%q) next=%q ;;\n", leading(s.path), strings.Join(s.words, " "))
	}
	b.WriteString("\t*) return 1 ;;\n\tesac\n}\n")
	return b.String()
}

// leading returns a path with a blank before it, as the scripts write paths; "" stays empty.
func leading(path string) string {
	if path == "" {
		return ""
	}
	return " " + path
}

func fishCompletion(steps []step) string {
	var b strings.Builder
	b.WriteString("# Made by \"causeway completion\": put it into ~/.config/fish/completions/causeway.fish.\nfunction __causeway_words\n" +
		"\tstring match -q -- -f (commandline -opc)[-1]; and return\n\tset -l path ''\n\tset -l prev ''\n\tfor w in (commandline -opc)[2..-1]\n\t\tstring match -q -- '-*' $w; and continue\n\t\tset prev $w\n" +
		"\t\t__causeway_at \"$path $w\" >/dev/null; and set path \"$path $w\"\n\tend\n" +
		"\tset -l next (__causeway_at \"$path … $prev\"; or __causeway_at \"$path\")\n" +
		"\tif string match -q -- '-*' (commandline -ct)\n\t\tstring match -- '-*' $next\n\telse\n\t\tstring match -v -- '-*' $next\n\tend\nend\n" +
		"function __causeway_at\n\tswitch $argv[1]\n")
	for _, s := range steps {
		fmt.Fprintf(&b, "\t\tcase '%s'\n\t\t\tstring split ' ' -- '%s'\n", leading(s.path), strings.Join(s.words, " "))
	}
	b.WriteString("\t\tcase '*'\n\t\t\treturn 1\n\tend\n\treturn 0\nend\n" +
		"complete -c causeway -f -a '(__causeway_words)'\ncomplete -c causeway -n 'not __causeway_words | string length -q' -F\n")
	return b.String()
}
