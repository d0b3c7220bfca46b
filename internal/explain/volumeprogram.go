package explain

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/explain/shellquote"
)

// shown is a file that a volume shows of a ConfigMap or Secret.
type shown struct {
	finding.VolumeFile
	volume int  // its index
	there  bool // false: the volume shows no such file
	known  bool // false: it is no such volume, or what it shows was not read
}

// shownFile is what a volume of ConfigMaps and Secrets shows at a path in a container.
func shownFile(in In, c container, file string) (f shown) {
	m, _, ok := mountIndex(c, file)
	if !ok || in.Objects == nil || in.Pod == nil {
		return f
	}
	f.volume = slices.IndexFunc(in.Pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
	if f.volume < 0 {
		return f
	}
	rest := path.Join(m.SubPath, strings.TrimPrefix(strings.TrimPrefix(file, m.MountPath), "/"))
	f.VolumeFile, f.there, f.known = in.Objects.FileAt(&in.Pod.Spec.Volumes[f.volume], in.Ref.Namespace, rest)
	return f
}

// volumeProgram is why the kernel does not run a program that a volume shows of a ConfigMap or
// Secret, from the kernel's words: its mode, its first line, or the interpreter that this names.
func volumeProgram(in In, c container, program, why string) (restriction, bool) {
	f := shownFile(in, c, program)
	if !f.known || !f.there {
		return restriction{}, false
	}
	first, _, _ := strings.Cut(f.Text, "\n")
	interpreter, isScript := strings.CutPrefix(first, "#!")
	low := strings.ToLower(why)
	what := fmt.Sprintf("key %s of %s %s", f.Key, f.Of.Kind, f.Of.Name)
	switch {
	case strings.Contains(low, "permission denied") && f.Mode&0o111 == 0:
		return notExecutable(in, f.volume, program, f.Mode), true
	case strings.Contains(low, "exec format error") && (f.Text == "" || !isScript):
		r := restriction{text: fmt.Sprintf("It runs %s, which is %s: the kernel takes that for no program (exec "+
			"format error).", program, what), fixes: []Fix{byShell(in, c, program)}}
		if f.Text != "" {
			r.text = fmt.Sprintf("It runs %s, which is %s: its first line does not name its interpreter "+
				"(#!/bin/sh), so the kernel cannot run it (exec format error).", program, what)
			if fix, ok := editedKey(in, f.VolumeFile, "give it a first line with its interpreter",
				"#!/bin/sh\n"+f.Text); ok {
				r.fixes = append(r.fixes, fix)
			}
		}
		r.object, r.field, r.value, r.want = f.Of, "data."+f.Key, clipped(first), "#!/bin/sh"
		return r, true
	case strings.Contains(low, "no such file") && isScript:
		words := strings.Fields(interpreter)
		if len(words) == 0 {
			return restriction{}, false
		}
		r := restriction{object: f.Of, field: "data." + f.Key, value: clipped(strings.TrimSpace(first)),
			text: fmt.Sprintf("It runs %s, which is %s, and the interpreter that its first line names, %s, is not "+
				"in the image %s.", program, what, words[0], c.spec.Image), fixes: []Fix{byShell(in, c, program)}}
		if strings.HasSuffix(first, "\r") {
			r.text = fmt.Sprintf("It runs %s, which is %s, and its lines end as on Windows (CR LF): the kernel "+
				"looks for an interpreter whose name ends with that CR.", program, what)
			r.fixes = nil
			if fix, ok := editedKey(in, f.VolumeFile, "let its lines end with LF alone",
				strings.ReplaceAll(f.Text, "\r\n", "\n")); ok {
				r.fixes = []Fix{fix}
			}
		}
		return r, true
	}
	return restriction{}, false
}

// byShell lets a shell read a program, which then needs neither a mode nor a first line.
func byShell(in In, c container, program string) Fix {
	say := fmt.Sprintf("let a shell of the image read it: sh %s", program)
	if len(c.spec.Command) == 0 {
		return Fix{Description: say}
	}
	return editedContainer(in, c.spec.Name, say, func(x *corev1.Container) {
		x.Command = append([]string{"sh"}, x.Command...)
	})
}

// longestEdit is the longest text that a command of a remedy writes.
const longestEdit = 2000

// editedKey lets a key of a ConfigMap have another text; ok is false for others and for long texts.
func editedKey(in In, f finding.VolumeFile, say, text string) (Fix, bool) {
	if f.Of.Kind != "ConfigMap" || len(text) > longestEdit {
		return Fix{}, false
	}
	return commandFix(say+", then start the Pod anew", fmt.Sprintf("kubectl -n %s patch configmap %s --type=merge "+
		"-p %s",
		in.Ref.Namespace, f.Of.Name,
		shellquote.Quoted(fmt.Sprintf(`{"data":{%s:%s}}`, shellquote.JSON(f.Key), shellquote.JSON(text)))),
		againCommand(in.Pod)), true
}

// againCommand makes a Pod anew: by what makes its Pods, or as it is.
func againCommand(p *corev1.Pod) string {
	target := commandTarget(p)
	if target != "pod/"+p.Name && !strings.HasPrefix(target, "job/") && !strings.HasPrefix(target, "replicaset/") {
		return fmt.Sprintf("kubectl -n %s rollout restart %s", p.Namespace, target)
	}
	if target != "pod/"+p.Name {
		return fmt.Sprintf("kubectl -n %s delete pod %s", p.Namespace, p.Name)
	}
	return fmt.Sprintf("kubectl -n %s get pod %s -o json | kubectl replace --force -f -", p.Namespace, p.Name)
}

// clipped is a line, cut where it is long.
func clipped(line string) string {
	if r := []rune(line); len(r) > longestLine {
		return string(r[:longestLine])
	}
	return line
}
