package explain

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/whatif"
	"github.com/gantry-project/gantry/internal/journal"
)

var configReasons = []string{"CreateContainerConfigError", "CreateContainerError", "RunContainerError",
	"PreCreateHookError", "PreStartHookError"}

var (
	claimPattern   = regexp.MustCompile(`persistentvolumeclaim "([^"]+)" not found`)
	keyPattern     = regexp.MustCompile(`couldn't find key (\S+) in (ConfigMap|Secret) [^/\s]+/(\S+)`)
	objectPattern  = regexp.MustCompile(`(configmap|secret)s? "([^"]+)" not found`)
	userName       = regexp.MustCompile(`non-numeric user \(([^)]*)\)`)
	noSubPath      = regexp.MustCompile(`failed to prepare subPath for volumeMount "([^"]+)"`)
	programPattern = regexp.MustCompile(`exec: "([^"]+)"`)
)

func configFailed(in In) *Answer {
	if in.Pod == nil {
		return nil
	}
	for _, c := range containers(in.Pod) {
		w := c.waiting()
		if w == nil || !slices.Contains(configReasons, w.Reason) {
			continue
		}
		return configAnswer(in, c, w)
	}
	return nil
}

// configAnswer explains one container that cannot be made.
func configAnswer(in In, c container, w *corev1.ContainerStateWaiting) *Answer {
	a := &Answer{State: w.Reason, Cause: fmt.Sprintf("%s cannot be made: %s", c.title(), w.Message),
		Next: "it is tried again with growing pauses"}
	low := strings.ToLower(w.Message)
	switch {
	case keyPattern.MatchString(w.Message):
		m := keyPattern.FindStringSubmatch(w.Message)
		keyMissing(a, in, c, objectKey{kind: m[2], name: m[3], key: strings.TrimSuffix(m[1], ",")})
	case objectPattern.MatchString(w.Message):
		m := objectPattern.FindStringSubmatch(w.Message)
		objectMissing(a, in, objectKey{kind: kinds[m[1]], name: m[2]})
	case userName.MatchString(w.Message):
		namedUser(a, in, c, userName.FindStringSubmatch(w.Message)[1])
	case strings.Contains(low, "runasnonroot"), strings.Contains(low, "non-root policy"):
		a.Cause = fmt.Sprintf("Container %s cannot be made: runAsNonRoot is set, and its user would be number 0: "+
			"%s", c.spec.Name, w.Message)
		a.Fixes = []Fix{
			asUser(in, c, 1000,
				"run it as another user, 1000 for instance (its files have to be readable for that one)"),
			editedContainer(in, c.spec.Name,
				"or let it run as user 0: then a process that breaks out is root on the node",
				func(x *corev1.Container) { no := false; security(x).RunAsNonRoot = &no })}
	case strings.Contains(low, "executable file not found"), strings.Contains(low, "no such file"),
		strings.Contains(low, "permission denied"):
		a.Fixes = textFixes("correct the command: it is not in the image, or cannot be executed")
		if m := programPattern.FindStringSubmatch(w.Message); m != nil {
			a.Fixes[0].Description = fmt.Sprintf(
				"correct the command: %s is not in the image %s, or cannot be executed", m[1], c.spec.Image)
		}
	case noSubPath.MatchString(w.Message):
		subPathFailed(a, in, c, noSubPath.FindStringSubmatch(w.Message)[1])
	default:
		a.Fixes = textFixes(cmp.Or(kubeletFix(in, w.Message), createHint(w.Message)))
	}
	a.Facts = append(a.Facts, "the kubelet's words: "+w.Message)
	return a

