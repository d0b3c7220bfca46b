package explain

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gantry-project/gantry/internal/journal"
)

const mebibyte = 1 << 20

// mib formats bytes for people.
func mib(n uint64) string { return journal.Size(int64(n)) }

// memoryLimit returns the container's limit, or 0.
func memoryLimit(c *corev1.Container) uint64 {
	q, ok := c.Resources.Limits[corev1.ResourceMemory]
	if !ok {
		return 0
	}
	return uint64(q.Value())
}

// memoryText compares the Pod's peak with the container's limit.
func memoryText(in In, c container) []string {
	limit := memoryLimit(c.spec)
	if limit == 0 {
		return nil
	}
	f, _, ok := newest[journal.ContainerExited](in,
		func(f journal.ContainerExited) bool { return f.Container == c.spec.Name && f.Memory.Peak > 0 })
	if !ok {
		return []string{fmt.Sprintf("its memory limit is %s", mib(limit))}
	}
	s := fmt.Sprintf("memory: the Pod took %s at most, the limit is %s", mib(f.Memory.Peak), mib(limit))
	if f.Memory.Peak < limit*9/10 && f.Memory.Kills == 0 {
		s += ": it was not killed for memory"
	}
	return []string{s}
}

// memoryState says whether the kernel killed in a container for lack of memory.
type memoryState struct {
	oomKilled bool
	child     bool // not its main process
	limit     uint64
	ofPod     uint64 // the limit of all containers of the Pod together; 0: none
	peak      uint64
}

// memoryStateOf reports whether a run ended because of memory: by the runtime's reason, the
// kernel's count, or a peak at the limit.
func memoryStateOf(in In, c container, t *corev1.ContainerStateTerminated) memoryState {
	s := memoryState{limit: memoryLimit(c.spec), ofPod: podMemoryLimit(in.Pod)}
	f, _, ok := newest[journal.ContainerExited](in, func(f journal.ContainerExited) bool {
		return f.Container == c.spec.Name && (t.ContainerID == "" || strings.HasSuffix(t.ContainerID, f.ID))
	})
	if ok {
		s.peak = f.Memory.Peak
	}
	alone := len(in.Pod.Spec.Containers)+len(in.Pod.Spec.InitContainers) == 1
	full := alone && s.limit > 0 && s.peak >= s.limit*98/100 && f.Memory.LimitHits > 0
	s.oomKilled = t.Reason == "OOMKilled" || alone && f.Memory.Kills > 0 || full && t.ExitCode != 0
	s.child = s.oomKilled && t.ExitCode != 137
	return s
}

// oomText describes the OOM kill of a container.
func oomText(in In, c container, t *corev1.ContainerStateTerminated, s memoryState) string {
	limit := "there is no limit of its own, so the node or the Pod had no more"
	switch {
	case s.limit > 0:
		limit = "limit " + mib(s.limit)
	case s.ofPod > 0:
		limit = fmt.Sprintf("it has no limit of its own, and spec.resources.limits.memory of the Pod allows all its "+
			"containers together %s", mib(s.ofPod))
	}
	limit += limitOrigin(in, c) + memoryVolumesText(in, c)
	if s.child {
		return fmt.Sprintf("out of memory in a child: the kernel killed %s for memory (%s), the container's first "+
			"process lived on and ended by itself with exit code %d", killedChild(c.spec), limit, t.ExitCode)
	}
	return fmt.Sprintf("exit code %d (%s), it used more memory than it may (%s) and the kernel killed it", t.ExitCode,
		t.Reason, limit)
}

// killedChild returns the program of a shell's command that was probably killed.
func killedChild(c *corev1.Container) string {
	for _, word := range strings.Fields(commandLine(c)) {
		if m := sizePattern.FindStringSubmatch(word); m != nil {
			return "a child of it (the one with " + strings.Trim(word, `"';`) + ")"
		}
	}
	return "a child of it"
}

// commandLine returns command and args in one string.
func commandLine(c *corev1.Container) string {
	return strings.Join(append(append([]string{}, c.Command...), c.Args...), " ")
}

// sizePattern matches words that name a size: bs=200M, -Xmx512m, --max-memory=2G.
var sizePattern = regexp.MustCompile(`(?:^|[=a-z])(\d+)([kmgKMG])(?:i?[bB])?["';]*$`)

// sizeInCommand returns the largest size in a command line, in bytes.
func sizeInCommand(c *corev1.Container) uint64 {
	var most uint64
	for _, word := range strings.Fields(commandLine(c)) {
		m := sizePattern.FindStringSubmatch(word)
		if m == nil {
			continue
		}
		n, err := strconv.ParseUint(m[1], 10, 32)
		if err != nil {
			continue
		}
		most = max(most, n<<map[string]int{"k": 10, "m": 20, "g": 30}[strings.ToLower(m[2])])
	}
	return most
}

// proposedLimit proposes a limit: a quarter above the size in the command, or four times the
// current one.
func proposedLimit(limit uint64, c *corev1.Container) (to resource.Quantity, why string) {
	n, why := 4*limit, "four times as much; how much it wants in all is not known, for it was killed at the limit"
	if size := sizeInCommand(c); size > limit/2 && size < 64*limit {
		n, why = max(size+size/4, 2*limit), fmt.Sprintf("its command speaks of %s", mib(size))
	}
	const step = 16 * mebibyte
	return *resource.NewQuantity(int64((n+step-1)/step*step), resource.BinarySI), why
}

// memoryFixes returns fixes that raise the limit.
func memoryFixes(in In, c container, s memoryState) []Fix {
	volumes := memoryVolumeFixes(in, c)
	if s.limit == 0 && s.ofPod > 0 {
		to, why := proposedLimit(s.ofPod, c.spec)
		return append([]Fix{editedPodFix(in, fmt.Sprintf("raise the Pod's memory limit to %s (%s)", to.String(), why),
			func(x *corev1.PodSpec) { x.Resources.Limits[corev1.ResourceMemory] = to })}, append(volumes,
			Fix{Description: "or make its containers use less"})...)
	}
	if s.limit == 0 {
		return []Fix{
			{Description: "raise the container's memory limit, or make the program use less: the Pod or the node has " +
				"no more"}}
	}
	to, why := proposedLimit(s.limit, c.spec)
	return append([]Fix{editedContainer(in, c.spec.Name, fmt.Sprintf("raise the container's memory limit to %s (%s)",
		to.String(), why), func(x *corev1.Container) {
		x.Resources.Limits[corev1.ResourceMemory] = to
	})}, append(volumes, Fix{Description: "or make the program use less"})...)
}
