package explain

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
)

// restriction is what a Pod's own spec forbids a container.
type restriction struct {
	object             finding.Object // whose field it is; without a kind: the Pod
	field, value, want string
	text               string // one sentence
	fixes              []Fix
	file               string // that the line names; empty: none
}

// lastOutput are what a container logged last, and its termination message.
func lastOutput(in In, c container, t *corev1.ContainerStateTerminated) string {
	words := in.LastLogs[c.spec.Name]
	if t != nil {
		words += "\n" + t.Message
	}
	return strings.TrimSpace(words)
}

// longestLine is how much of a container's last line is told.
const longestLine = 200

// lastLine is the last line that a container wrote before it ended, cut where it is long; of what
// the runtime itself says, as of a program that it could not start, nothing.
func lastLine(in In, c container, t *corev1.ContainerStateTerminated) string {
	if neverStarted(t) {
		return ""
	}
	words := lastOutput(in, c, t)
	line := []rune(strings.TrimSpace(words[strings.LastIndex(words, "\n")+1:]))
	return string(line[:min(len(line), longestLine)])
}

var pathPattern = regexp.MustCompile(`(?:^|[\s'"(=:])(/[A-Za-z0-9._/-]*[A-Za-z0-9_-])`)

// fileIn is the last path that a line names; empty when it names none.
func fileIn(line string) string {
	all := pathPattern.FindAllStringSubmatch(line, -1)
	if len(all) == 0 || strings.HasPrefix(all[len(all)-1][1], "//") { // none, or a URL's rest
		return ""
	}
	return all[len(all)-1][1]
}

// deniedBy holds the last output of a container against what its Pod's spec forbids it. The first
// line that a restriction explains counts.
func deniedBy(in In, c container, at, words string) (restriction, bool) {
	for line := range strings.SplitSeq(words, "\n") {
		low := strings.ToLower(line)
		has := func(list ...string) bool {
			return slices.ContainsFunc(list, func(s string) bool { return strings.Contains(low, s) })
		}
		file := fileIn(line)
		r, ok := lineExplained(in, c, at, line)
		switch {
		case ok:
		case strings.Contains(line, "system:serviceaccount:"):
			r, ok = notAllowed(in, line)
		case has("read-only file system", "erofs"):
			r, ok = readOnly(in, c, at, file)
		case has("permission denied", "eacces", "operation not permitted", "eperm"):
			r, ok = notPermitted(in, c, at, line)
		case has("no such file", "enoent", "not found", "does not exist", "cannot find"):
			r, ok = fileMissing(in, c, at, file)
		case has("no space left", "enospc"):
			r, ok = spaceUsedUp(in, c, at, file)
		}
		if ok {
			r.file = file
			return r, true
		}
	}
	return restriction{}, false
}

// readOnly is the mount, or the root file system, that cannot be written.
func readOnly(in In, c container, at, file string) (restriction, bool) {
	if m, i, ok := mountIndex(c, file); ok {
		if !m.ReadOnly {
			return apiVolumeWritten(in, m, fmt.Sprintf("%s.volumeMounts[%d]", at, i), file)
		}
		return restriction{field: fmt.Sprintf("%s.volumeMounts[%d].readOnly", at, i), value: "true", want: "false",
			text: fmt.Sprintf("It cannot write %s: volume %s is mounted read-only at %s.", file, m.Name, m.MountPath),
			fixes: []Fix{editedContainer(in, c.spec.Name, fmt.Sprintf("mount volume %s so that it may be written",
				m.Name),
				func(x *corev1.Container) { x.VolumeMounts[i].ReadOnly = false })}}, true
	}
	s := c.spec.SecurityContext
	if s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
		return restriction{}, false
	}
	return restriction{field: at + ".securityContext.readOnlyRootFilesystem", value: "true", want: "false",
		text: fmt.Sprintf("It cannot write %s: readOnlyRootFilesystem is set, so only volumes can be written.", file),
		fixes: append(scratchFix(in, c, path.Dir(file)), editedContainer(in, c.spec.Name,
			"allow writing to the image's own files: what breaks in can then change them too",
			func(x *corev1.Container) { x.SecurityContext.ReadOnlyRootFilesystem = nil }))}, true
}

// mountIndex is the deepest mount that a file is on.
func mountIndex(c container, file string) (corev1.VolumeMount, int, bool) {
	m, ok := mountOf(c, file)
	i := slices.IndexFunc(c.spec.VolumeMounts, func(v corev1.VolumeMount) bool { return v.MountPath == m.MountPath })
	return m, i, ok && file != "" && i >= 0
}

// userOf is the user that a container is told to run as, with the field; known is false when only
// its image says so.
func userOf(p *corev1.Pod, c container, at string) (uid int64, field string, known bool) {
	if s := c.spec.SecurityContext; s != nil && s.RunAsUser != nil {
		return *s.RunAsUser, at + ".securityContext.runAsUser", true
	}
	if s := p.Spec.SecurityContext; s != nil && s.RunAsUser != nil {
		return *s.RunAsUser, "spec.securityContext.runAsUser", true
	}
	return 0, "", false
}

var portPattern = regexp.MustCompile(`:(\d{1,5})\b`)

// notPermitted is the mode, user or capability that keeps a container from a file or port.
func notPermitted(in In, c container, at, line string) (restriction, bool) {
	low, file := strings.ToLower(line), fileIn(line)
	uid, field, known := userOf(in.Pod, c, at)
	if r, ok := ownerChangeRefused(in, c, at, low); ok {
		return r, true
	}
	if m, _, ok := mountIndex(c, file); ok {
		if !known {
			uid, field = imageUser(c), at+".image"
		}
		r, ok := modeForbids(in, m, file, user{uid, field})
		if mode, err := strconv.ParseInt(r.value, 10, 32); err == nil && strings.HasSuffix(r.field, ".defaultMode") {
			r.text += groupForbids(in, c, at, int32(mode))
		}
		return r, ok
	}
	if m := portPattern.FindStringSubmatch(low); m != nil && (strings.Contains(low, "bind") ||
		strings.Contains(low, "listen")) {
		if n, err := strconv.Atoi(m[1]); err == nil && n < 1024 && known && uid != 0 {
			return restriction{field: field, value: fmt.Sprint(uid),
				text: fmt.Sprintf("It cannot listen on port %d: user %d may not open ports below 1024 without the "+
					"capability NET_BIND_SERVICE.", n, uid), fixes: []Fix{editedContainer(in, c.spec.Name,
					"give it the capability NET_BIND_SERVICE, or let it listen on a port from 1024 on",
					func(x *corev1.Container) {
						s := security(x)
						if s.Capabilities == nil {
							s.Capabilities = &corev1.Capabilities{}
						}
						s.Capabilities.Add = append(s.Capabilities.Add, "NET_BIND_SERVICE")
					})}}, true
		}
	}
	if r, ok := filteredCall(in, c, at, line); ok && strings.Contains(low, "not permitted") {
		return r, true
	}
	if s := c.spec.SecurityContext; s != nil && s.Capabilities != nil && len(s.Capabilities.Drop) > 0 &&
		strings.Contains(low, "not permitted") {
		if r, ok := oneCapability(in, c, at, low); ok {
			return r, true
		}
		return restriction{field: at + ".securityContext.capabilities.drop", value: joined(s.Capabilities.Drop),
			text: fmt.Sprintf("Its capabilities %s are taken away, and what it tried needs one of them.",
				joined(s.Capabilities.Drop)), fixes: []Fix{editedContainer(in, c.spec.Name,
				"give the capabilities back: what breaks in has them too",
				func(x *corev1.Container) { x.SecurityContext.Capabilities.Drop = nil })}}, true
	}
	if r, ok := imageUserDenied(in, c, at, file); ok && !known {
		return r, true
	}
	if known && uid != 0 && file != "" {
		return restriction{field: field, value: fmt.Sprint(uid),
				text: fmt.Sprintf("It runs as user %d, and the image's file %s is not open to that "+
					"one.", uid, file), fixes: []Fix{{Description: fmt.Sprintf(
					"let the image give %s to user %d, or mount a volume there that it may write (emptyDir)", file,
					uid)}}},
			true
	}
	return restriction{}, false
}

func joined(list []corev1.Capability) string {
	var out []string
	for _, c := range list {
		out = append(out, string(c))
	}
	return strings.Join(out, ",")
}

const tokenPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// fileMissing is why a file is not there: no token is given, a volume does not hold it, or a mount
// with nearly its path stands elsewhere.
func fileMissing(in In, c container, at, file string) (restriction, bool) {
	if file == "" {
		return restriction{}, false
	}
	no := in.Pod.Spec.AutomountServiceAccountToken
	if strings.HasPrefix(file, tokenPath) && no != nil && !*no {
		return restriction{field: "spec.automountServiceAccountToken", value: "false", want: "true",
			text: "It wants the token of its ServiceAccount, and automountServiceAccountToken is false: none is given.",
			fixes: []Fix{editedPodFix(in, "give it the token", func(s *corev1.PodSpec) {
				s.AutomountServiceAccountToken = nil
			})}}, true
	}
	if r, ok := tokenOfAccount(in); ok && strings.HasPrefix(file, tokenPath) {
		return r, true
	}
	if m, i, ok := mountIndex(c, file); ok {
		if !isAPIVolume(in.Pod, m.Name) || strings.HasPrefix(m.MountPath, tokenPath) {
			return restriction{}, false
		}
		if shownFile(in, c, file).there {
			return restriction{}, false
		}
		if r, ok := nearFile(in, m, file); ok {
			return r, true
		}
		return restriction{field: fmt.Sprintf("%s.volumeMounts[%d].mountPath", at, i), value: m.MountPath,
			text: fmt.Sprintf("It wants %s, and volume %s, which is mounted at %s, has no such file.", file, m.Name,
				m.MountPath), fixes: []Fix{{Description: fmt.Sprintf("add the key %s to what volume %s shows",
				path.Base(file), m.Name)}}}, true
	}
	var paths []string
	for _, m := range c.spec.VolumeMounts {
		paths = append(paths, m.MountPath)
	}
	for _, wanted := range []string{file, path.Dir(file)} {
		near, _ := finding.Near(wanted, paths)
		if near == "" || len(wanted) < 3 {
			continue
		}
		i := slices.Index(paths, near)
		return restriction{field: fmt.Sprintf("%s.volumeMounts[%d].mountPath", at, i), value: near, want: wanted,
			text: fmt.Sprintf("It wants %s, and volume %s is mounted at %s.", file, c.spec.VolumeMounts[i].Name, near),
			fixes: []Fix{editedContainer(in, c.spec.Name, "mount it at "+wanted, func(x *corev1.Container) {
				x.VolumeMounts[i].MountPath = wanted
			})}}, true
	}
	return restriction{}, false
}

// deniedFindings are, of a container that did not end well, the restriction that its last log lines
// show; without log lines the restrictions that it has, as notes.
func deniedFindings(in In, c container, at string, t *corev1.ContainerStateTerminated) []finding.Finding {
	words := lastOutput(in, c, t)
	if f, ok := unresolvedFinding(in, c, at, words); ok {
		return []finding.Finding{f}
	}
	f := finding.Finding{Code: "Restricted", Stage: finding.StageRun, Object: in.object()}
	if r, ok := deniedBy(in, c, at, words); ok {
		if r.object.Kind != "" {
			f.Object, f.Related = r.object, []finding.Object{f.Object}
		}
		f.Field, f.Value, f.Want, f.Message, f.Remedies = r.field, r.value, r.want, r.text, asRemedies(r.fixes)
		if r.file != "" {
			f.Numbers = map[string]string{"path": r.file}
		}
		return []finding.Finding{f}
	}
	if words != "" {
		return nil
	}
	var out []finding.Finding
	note := func(field, value, what string) {
		x := f
		x.Severity, x.Field, x.Value = finding.Note, field, value
		x.Message = fmt.Sprintf("%s ended early, and %s: that may be why.", c.title(), what)
		out = append(out, x)
	}
	if s := c.spec.SecurityContext; s != nil {
		if s.ReadOnlyRootFilesystem != nil && *s.ReadOnlyRootFilesystem {
			note(at+".securityContext.readOnlyRootFilesystem", "true", "it may write to volumes only")
		}
		if s.Capabilities != nil && len(s.Capabilities.Drop) > 0 {
			note(at+".securityContext.capabilities.drop", joined(s.Capabilities.Drop), "capabilities are taken from it")
		}
	}
	if uid, field, known := userOf(in.Pod, c, at); known && uid != 0 {
		note(field, fmt.Sprint(uid), fmt.Sprintf("it runs as user %d, whatever its image says", uid))
	}
	for i, m := range c.spec.VolumeMounts {
		if m.ReadOnly && !isAPIVolume(in.Pod, m.Name) {
			note(fmt.Sprintf("%s.volumeMounts[%d].readOnly", at, i), "true", "it may not write to "+m.MountPath)
		}
	}
	if no := in.Pod.Spec.AutomountServiceAccountToken; no != nil && !*no {
		note("spec.automountServiceAccountToken", "false", "it is given no token for the API")
	}
	return out
}

// asRemedies are fixes as data of a finding.
func asRemedies(list []Fix) []finding.Remedy {
	var out []finding.Remedy
	for _, f := range list {
		r := finding.Remedy{Say: f.Description, Run: f.Run, See: f.See, NodeLabels: f.nodeLabels}
		if f.ManifestChange != nil {
			r.Say += fmt.Sprintf(": in the manifest of %s %s", f.ManifestChange.Object, f.ManifestChange.Patch)
		}
		if f.Config != "" {
			r.Say += ": in the scheduler's configuration " + f.Config
		}
		out = append(out, r)
	}
	return out
}

// security is the security context of a container, made where it has none.
func security(c *corev1.Container) *corev1.SecurityContext {
	if c.SecurityContext == nil {
		c.SecurityContext = &corev1.SecurityContext{}
	}
	return c.SecurityContext
}
