package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const commandsPage = "docs/user/commands.md"

var (
	commandHeading = regexp.MustCompile(`^#+ (gantry( [a-z-]+)*)$`)
	codeSpan       = regexp.MustCompile("`([^`]+)`")
	flagName       = regexp.MustCompile(`(?:^|\s)(--?[a-zA-Z][a-zA-Z0-9-]*)`)
	makeCall       = regexp.MustCompile(`(?:^|\s)make ([a-z][a-z-]*)`)
	makeTarget     = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)
)

// TestCommandsOfPagesExist checks that each command of gantry that a page names is on the rendered
// page of commands, with the flags that it is given, and that each target of make is in the
// Makefile.
func TestCommandsOfPagesExist(t *testing.T) {
	sections := commandSections(t)
	raw, err := os.ReadFile(filepath.Join(root(t), "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]bool{}
	for _, m := range makeTarget.FindAllStringSubmatch(string(raw), -1) {
		targets[m[1]] = true
	}
	for _, p := range pages(t) {
		if p.path == commandsPage {
			continue
		}
		for _, c := range codeOf(p.lines) {
			for _, m := range makeCall.FindAllStringSubmatch(c.text, -1) {
				if !targets[m[1]] {
					t.Errorf("%s:%d names make %s, which the Makefile does not have", p.path, c.line, m[1])
				}
			}
			if problem := wrongCommand(sections, c.text); problem != "" {
				t.Errorf("%s:%d names what is not there: %s", p.path, c.line, problem)
			}
		}
	}
}

// commandSections are the sections of the page of commands, by command; "" has what holds for all.
func commandSections(t *testing.T) map[string]string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root(t), commandsPage))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	current := ""
	for _, line := range strings.Split(string(raw), "\n") {
		if m := commandHeading.FindStringSubmatch(line); m != nil {
			current = m[1]
		}
		out[current] += line + "\n"
	}
	return out
}

// code is a code span, or a line of a code block with those that continue it.
type code struct {
	text string
	line int
}

func codeOf(lines []string) []code {
	var out []code
	block, goes := false, false
	for i, line := range lines {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			block, goes = !block, false
			continue
		}
		switch {
		case goes:
			out[len(out)-1].text += strings.TrimSuffix(line, `\`)
		case block:
			out = append(out, code{strings.TrimSuffix(line, `\`), i + 1})
		default:
			for _, m := range codeSpan.FindAllStringSubmatch(line, -1) {
				out = append(out, code{m[1], i + 1})
			}
		}
		goes = block && strings.HasSuffix(line, `\`)
	}
	return out
}

// wrongCommand says what of a call of gantry the sections do not have; empty if text is no such
// call, or nothing is wrong.
func wrongCommand(sections map[string]string, text string) string {
	_, call, ok := strings.Cut(" "+text, " gantry ")
	if !ok {
		return ""
	}
	call, _, _ = strings.Cut(call, "#")
	call, _, _ = strings.Cut(call, " | ")
	words := strings.Fields(call)
	if len(words) == 0 || !regexp.MustCompile(`^[a-z-]+$`).MatchString(words[0]) {
		return ""
	}
	name := "gantry " + words[0]
	if sections[name] == "" {
		return "there is no command " + name
	}
	for _, w := range words[1:] {
		if sections[name+" "+w] == "" {
			break
		}
		name += " " + w
	}
	for _, m := range flagName.FindAllStringSubmatch(call, -1) {
		named := regexp.MustCompile(`(^|[^\w-])` + regexp.QuoteMeta(m[1]) + `($|[^\w-])`)
		if !named.MatchString(sections[name]) && !named.MatchString(sections[""]) {
			return name + " has no flag " + m[1]
		}
	}
	return ""
}

func TestWrongCommandsAreFound(t *testing.T) {
	sections := map[string]string{"": "-v", "gantry up": "--data-dir DIR", "gantry etcd": "status",
		"gantry etcd snapshot": "-o"}
	for text, want := range map[string]string{
		"sudo gantry up --data-dir /tmp/x -v 2": "", "gantry up --other": "gantry up has no flag --other",
		"gantry upp": "there is no command gantry upp", "gantry etcd snapshot -o json": "",
		"gantry etcd -o json": "gantry etcd has no flag -o", "kubectl get pods -A": "", "gantry up | grep -x": "",
	} {
		if got := wrongCommand(sections, text); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}
