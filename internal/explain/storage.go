package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gantry-project/gantry/internal/journal"
)

// localStorageExceeded explains a Pod that was evicted because it exceeded its own limits of local
// storage.
func localStorageExceeded(in In) *Answer {
	p := in.Pod
	if p == nil || p.Status.Phase != corev1.PodFailed || p.Status.Reason != "Evicted" {
		return nil
	}
	f, at, ok := newest[journal.StorageExceeded](in, nil)
	if !ok {
		return nil
	}
	a := &Answer{State: "Failed (Evicted)", Since: at}
	used, limit := journal.Size(f.Used), journal.Size(f.Limit)
	switch f.Of {
	case journal.OfVolume:
		a.Cause = fmt.Sprintf("The Pod broke its own limit: emptyDir %s held %s, and its sizeLimit is %s.", f.Name,
			used, limit)
		a.Facts = append(a.Facts, mountedBy(p, f.Name)...)
	case journal.OfContainer:
		a.Cause = fmt.Sprintf("The Pod broke its own limit: container %s took %s for its writable layer and its "+
			"logs, and its ephemeral-storage limit is %s.", f.Name, used, limit)
	default:
		a.Cause = fmt.Sprintf("The Pod broke its own limit: it took %s of local storage, and the ephemeral-storage "+
			"limit of its containers is %s (%s). emptyDirs, writable layers and logs all count.", used, limit,
			storageLimits(p))
	}
	for _, part := range f.Parts {
		a.Facts = append(a.Facts, part.String()+" of it"+volumeUsageText(p, part))
	}
	if !underDiskPressure(in.Node) {
		a.Cause += " The node is fine: it had no part in this."
	}
	a.Next = "nothing: an evicted Pod stays as it is until somebody deletes it"
	if len(p.OwnerReferences) > 0 {
		a.Next = "its " + p.OwnerReferences[0].Kind + " makes another Pod, which meets the same limit"
	}
	a.Fixes = append(storageFixes(in, f), textFixes("or write less, or move or remove in time what is no longer needed",
		"or keep the data on a claim of its own (persistentVolumeClaim, ephemeral): that does not count")...)
	return a
}

// underDiskPressure reports whether the node has DiskPressure.
func underDiskPressure(n *corev1.Node) bool {
	return n != nil && slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeDiskPressure && c.Status == corev1.ConditionTrue
	})
}

func storageLimits(p *corev1.Pod) string {
	var out []string
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		if q := c.Resources.Limits.StorageEphemeral(); q.Sign() > 0 {
			out = append(out, c.Name+" "+q.String())
		}
	}
	return strings.Join(out, ", ")
}

func mountedBy(p *corev1.Pod, volume string) []string {
	var out []string
	for _, c := range containers(p) {
		for _, m := range c.spec.VolumeMounts {
			if m.Name == volume {
				out = append(out, fmt.Sprintf("container %s has it at %s", c.spec.Name, m.MountPath))
			}
		}
	}
	return out
}

// volumeUsageText says where a volume is mounted, and that its own limit was not the exceeded one.
func volumeUsageText(p *corev1.Pod, part journal.StoragePart) string {
	i := slices.IndexFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return part.Name != "" && v.Name == part.Name })
	if i < 0 {
		return ""
	}
	var s string
	if by := mountedBy(p, part.Name); len(by) > 0 {
		s = " (" + strings.Join(by, ", ") + ")"
	}
	if e := p.Spec.Volumes[i].EmptyDir; e != nil && e.SizeLimit != nil {
		s += fmt.Sprintf("; its own sizeLimit of %s was not reached, a volume counts against the containers' limit "+
			"all the same", e.SizeLimit.String())
	}
	return s
}

// storageFixes returns fixes that raise the exceeded limit, together with the containers' limit if
// that would be next.
func storageFixes(in In, f journal.StorageExceeded) []Fix {
	p := in.Pod
	need, why := f.Used, "it took "+journal.Size(f.Used)
	if n := bytesWritten(p, f); n > need && n < 64*f.Limit {
		need, why = n, "its command writes "+journal.Size(n)
	}
	to := roundedUp(need)
	var total int64
	for i := range p.Spec.Containers {
		total += p.Spec.Containers[i].Resources.Limits.StorageEphemeral().Value()
	}
	name := f.Name
	if f.Of != journal.OfContainer {
		name = limitedContainer(p, f)
	}
	most := func(s *corev1.PodSpec, more int64) {
		for i := range s.Containers {
			if c := &s.Containers[i]; c.Name == name && more > 0 {
				c.Resources.Limits[corev1.ResourceEphemeralStorage] = binaryQuantity(
					c.Resources.Limits.StorageEphemeral().Value() + more)
			}
		}
	}
	if f.Of == journal.OfVolume {
		say := fmt.Sprintf("raise the sizeLimit of %s to %s (%s)", f.Name, quantity(to), why)
		if total > 0 && to > total {
			say += fmt.Sprintf(", and with it the ephemeral-storage limit of container %s", name)
		}
		return []Fix{editedPodFix(in, say, func(s *corev1.PodSpec) {
			for i := range s.Volumes {
				if v := &s.Volumes[i]; v.Name == f.Name && v.EmptyDir != nil {
					q := binaryQuantity(to)
					v.EmptyDir.SizeLimit = &q
				}
			}
			if total > 0 {
				most(s, roundedUp(to)-total)
			}
		})}
	}
	own := p.Spec.Containers[max(0,
		slices.IndexFunc(p.Spec.Containers,
			func(c corev1.Container) bool { return c.Name == name }))].Resources.Limits.StorageEphemeral().Value()
	return []Fix{
		editedPodFix(in, fmt.Sprintf("raise the ephemeral-storage limit of container %s to %s (%s, the limit was %s)",
			name, quantity(own+to-f.Limit), why, journal.Size(f.Limit)), func(s *corev1.PodSpec) {
			most(s, to-f.Limit)
		})}
}

func binaryQuantity(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.BinarySI) }

func quantity(n int64) string { q := binaryQuantity(n); return q.String() }

// roundedUp returns a quarter more than n, rounded up.
func roundedUp(n int64) int64 {
	n += n / 4
	step := int64(mebibyte)
	if n > 64*mebibyte {
		step = 16 * mebibyte
	}
	return (n + step - 1) / step * step
}

// limitedContainer returns the container whose limit to raise if the Pod as a whole exceeds the
// sum: one with a limit, preferably one that mounts the largest part.
func limitedContainer(p *corev1.Pod, f journal.StorageExceeded) string {
	volume, best, rank := f.Name, "", -1
	if len(f.Parts) > 0 {
		volume = f.Parts[0].Name
	}
	for i := range p.Spec.Containers {
		c, r := &p.Spec.Containers[i], 0
		if c.Resources.Limits.StorageEphemeral().Sign() <= 0 {
			continue
		}
		if slices.ContainsFunc(c.VolumeMounts,
			func(m corev1.VolumeMount) bool { return volume != "" && m.Name == volume }) {
			r = 1
		}
		if r > rank {
			best, rank = c.Name, r
		}
	}
	return best
}

var (
	ddPattern  = regexp.MustCompile(`\bdd\b[^;|&\n]*`)
	blockSize  = regexp.MustCompile(`\bbs=(\d+)([kKmMgG]?)`)
	blockCount = regexp.MustCompile(`\bcount=(\d+)`)
	allocated  = regexp.MustCompile(`\b(?:fallocate[^;|&\n]* -l|head -c)\s*(\d+)([kKmMgG]?)`)
)

// bytesWritten returns the bytes that command lines say they write: of the container that exceeded
// its limit, or of all. The measured use is lower, as the Pod was still writing.
func bytesWritten(p *corev1.Pod, f journal.StorageExceeded) int64 {
	var sum int64
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		mounts := slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == f.Name })
		if f.Of == journal.OfContainer && c.Name != f.Name || f.Of == journal.OfVolume && !mounts {
			continue
		}
		for _, dd := range ddPattern.FindAllString(commandLine(c), -1) {
			if size, n := blockSize.FindStringSubmatch(dd), blockCount.FindStringSubmatch(dd); size != nil && n != nil {
				sum += bytesOf(size[1], size[2]) * bytesOf(n[1], "")
			}
		}
		for _, m := range allocated.FindAllStringSubmatch(commandLine(c), -1) {
			sum += bytesOf(m[1], m[2])
		}
	}
	return max(sum, 0)
}

// bytesOf parses a number with dd's suffix; 0 if it is too large.
func bytesOf(number, suffix string) int64 {
	q, err := resource.ParseQuantity(number)
	if err != nil || q.Value() > 1<<30 {
		return 0
	}
	return q.Value() << map[string]int{"": 0, "k": 10, "m": 20, "g": 30}[strings.ToLower(suffix)]
}
