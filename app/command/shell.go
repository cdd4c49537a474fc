// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"slices"
	"strings"
)

// A Subcommand is one of the program's own, for completion.
type Subcommand struct {
	Name  string
	Help  string
	Words []string // flags and the like that may follow
}

// Shells are those that Completion knows.
var Shells = []string{"bash", "zsh", "fish"}

// A step is what may follow some words.
type step struct {
	path  string // "ctl show"
	words []string
}

// steps lists what may follow which words, for the program's commands and, after ctl, the bridge's.
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

// Completion returns what a shell needs to complete the program's commands. It asks no bridge.
func (t *Table) Completion(shell string, subcommands []Subcommand) (string, error) {
	steps := t.steps(subcommands)
	switch shell {
	case "bash":
		return bashCompletion(steps), nil
	case "zsh":
		return "#compdef causeway\nautoload -U +X bashcompinit && bashcompinit\n" + bashCompletion(steps), nil
	case "fish":
		return fishCompletion(steps), nil
	}
	return "", usagef("there is no shell %q here: %s", shell, oneOf(Shells))
}

// bashCompletion writes a function that takes the longest beginning of the words that it knows, without flags; after a key
// that has words of its own, those.
func bashCompletion(steps []step) string {
	var b strings.Builder
	b.WriteString("# Made by \"causeway completion\": source it, or put it where bash-completion looks.\n_causeway() {\n" +
		"\tlocal cur=${COMP_WORDS[COMP_CWORD]} path= words= w prev=\n" +
		"\tfor w in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n\t\tcase $w in -*) continue ;; esac\n" +
		"\t\tprev=$w\n\t\t_causeway_words \"$path $w\" && path=\"$path $w\"\n\tdone\n" +
		"\t_causeway_words \"$path … $prev\" || _causeway_words \"$path\"\n" +
		"\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n" +
		"\t[[ -z $words ]] && COMPREPLY=($(compgen -f -- \"$cur\"))\n}\n" +
		"_causeway_words() {\n\tcase $1 in\n")
	for _, s := range steps {
		fmt.Fprintf(&b, "\t%q) words=%q ;;\n", leading(s.path), strings.Join(s.words, " "))
	}
	b.WriteString("\t*) return 1 ;;\n\tesac\n}\ncomplete -o default -F _causeway causeway\n")
	return b.String()
}

// leading puts a blank before what is not empty, as the script's paths have it.
func leading(path string) string {
	if path == "" {
		return ""
	}
	return " " + path
}

func fishCompletion(steps []step) string {
	var b strings.Builder
	b.WriteString("# Made by \"causeway completion\": put it into ~/.config/fish/completions/causeway.fish.\nfunction __causeway_words\n" +
		"\tset -l path ''\n\tset -l prev ''\n\tfor w in (commandline -opc)[2..-1]\n\t\tstring match -q -- '-*' $w; and continue\n\t\tset prev $w\n" +
		"\t\t__causeway_at \"$path $w\" >/dev/null; and set path \"$path $w\"\n\tend\n" +
		"\t__causeway_at \"$path … $prev\"; or __causeway_at \"$path\"\nend\n" +
		"function __causeway_at\n\tswitch $argv[1]\n")
	for _, s := range steps {
		fmt.Fprintf(&b, "\t\tcase '%s'\n\t\t\tstring split ' ' -- '%s'\n", leading(s.path), strings.Join(s.words, " "))
	}
	b.WriteString("\t\tcase '*'\n\t\t\treturn 1\n\tend\n\treturn 0\nend\ncomplete -c causeway -f -a '(__causeway_words)'\n")
	return b.String()
}
