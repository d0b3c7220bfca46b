package crifake

import (
	"context"
	"io"
	"net"
	"path"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// AnnotationPrefix plus a container's name is the Pod annotation that holds the container's shell
// script.
const AnnotationPrefix = "fake.gantry.dev/"

// Script is what a container does. The zero Script runs until it is stopped and then exits 0.
type Script struct {
	Sh         string                      // POSIX shell; see lookup for what can be called in it
	Main       func(p *Process) (code int) // Go instead of Sh
	Exec       func(p *Process, cmd []string) (code int, handled bool)
	StartError string // StartContainer fails with this text, as for a command that is not there
}

// Process is the environment of a Go script.
type Process struct {
	Context context.Context // ends when the container is killed
	// TERM and other stop signals; a script that ignores it is killed after the grace period
	Signal    <-chan string
	Stdin     io.Reader
	Stdout    io.Writer
	Stderr    io.Writer
	Env       []string
	Pod       string // namespace/name
	Container string
	Attempt   uint32                   // restart count
	Path      func(path string) string // host path behind a path in the container, through its mounts
	Listen    func(port int, handle func(net.Conn)) error
	OOMKilled func() // the exit will be reported with reason OOMKilled
}

// Match says which containers a rule is for; empty fields match all. Image is matched with and
// without its tag.
type Match struct {
	Namespace, Pod, Container, Image string
	PodPrefix                        string
}

type rule struct {
	match  Match
	script Script
}

// On gives every container that matches this script, from its next start on. Later rules win.
func (f *Fake) On(m Match, s Script) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = append(f.rules, rule{m, s})
}

// scriptFor returns what a container does, in order of precedence: rule, annotation, its own
// command, its image's script, run for ever. Callers hold f.mu.
func (f *Fake) scriptFor(c *container) Script {
	for i := len(f.rules) - 1; i >= 0; i-- {
		if f.rules[i].match.matches(c) {
			return f.rules[i].script
		}
	}
	if text, ok := c.sandbox.config.GetAnnotations()[AnnotationPrefix+c.name()]; ok {
		return Script{Sh: text}
	}
	argv := append(append([]string(nil), c.config.GetCommand()...), c.config.GetArgs()...)
	if len(c.config.GetCommand()) == 0 && c.image.Script.isSet() {
		return c.image.Script
	}
	if len(argv) > 0 {
		if text, ok := shellText(argv); ok {
			return Script{Sh: text}
		}
		if _, known := lookup(argv[0]); known {
			return Script{Sh: quote(argv)}
		}
	}
	return c.image.Script
}

func (s Script) isSet() bool {
	return s.Sh != "" || s.Main != nil || s.StartError != "" || s.Exec != nil
}

func (m Match) matches(c *container) bool {
	meta := c.sandbox.config.GetMetadata()
	image := c.config.GetImage().GetUserSpecifiedImage()
	if image == "" {
		image = c.config.GetImage().GetImage()
	}
	return (m.Namespace == "" || m.Namespace == meta.GetNamespace()) &&
		(m.Pod == "" || m.Pod == meta.GetName()) &&
		(m.PodPrefix == "" || strings.HasPrefix(meta.GetName(), m.PodPrefix)) &&
		(m.Container == "" || m.Container == c.name()) &&
		(m.Image == "" || m.Image == image || sameRepository(m.Image, image) || c.image.named(m.Image))
}

func sameRepository(pattern, image string) bool {
	repo, _ := splitTag(image)
	return pattern == repo
}

// shellText finds the text in sh -c TEXT.
func shellText(argv []string) (string, bool) {
	if len(argv) < 3 {
		return "", false
	}
	switch path.Base(argv[0]) {
	case "sh", "ash", "bash", "dash":
		if strings.HasPrefix(argv[1], "-") && strings.HasSuffix(argv[1], "c") {
			return argv[2], true
		}
	}
	return "", false
}

func quote(argv []string) string {
	out := make([]string, len(argv))
	for i, a := range argv {
		out[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	return strings.Join(out, " ")
}

func signalName(s runtimeapi.Signal) string {
	if s == runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT {
		return "TERM"
	}
	return strings.TrimPrefix(s.String(), "SIGNAL_SIG")
}
