package explain

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/explain/shellquote"
	"github.com/gantry-project/gantry/internal/journal"
)

// mountOutput matches what a mount program printed, in the words of a kubelet.
var mountOutput = regexp.MustCompile(`(?s)Mounting command: .*?Output: (.*)$`)

// mountTarget matches the place below a kubelet's directory that a mount program repeats.
var mountTarget = regexp.MustCompile(`(?:mount(?:\.\w+)?: )?/\S+/(?:pods|plugins)/\S+: `)

// oneLine are a component's words in one line: of a mount that failed what its program printed.
func oneLine(words string) string {
	if m := mountOutput.FindStringSubmatch(words); m != nil {
		words = "mount failed: " + mountTarget.ReplaceAllString(m[1], "")
		words, _, _ = strings.Cut(words, "dmesg(1) may have more")
	}
	return strings.Join(strings.Fields(words), " ")
}

// volumeOf is the PersistentVolume to which a Pod's volume leads, with its claim; nil where it
// leads to none, or that was not read.
func volumeOf(in In, volume string) (claim string, v *corev1.PersistentVolume) {
	for i := range in.Pod.Spec.Volumes {
		x := &in.Pod.Spec.Volumes[i]
		switch {
		case x.Name != volume:
			continue
		case x.PersistentVolumeClaim != nil:
			claim = x.PersistentVolumeClaim.ClaimName
		case x.Ephemeral != nil:
			claim = in.Pod.Name + "-" + x.Name
		}
	}
	if claim == "" || in.Objects == nil {
		return claim, nil
	}
	c, ok := in.Objects.Get(finding.Object{Kind: "PersistentVolumeClaim", Namespace: in.Ref.Namespace,
		Name: claim}).(*corev1.PersistentVolumeClaim)
	if !ok || c.Spec.VolumeName == "" {
		return claim, nil
	}
	v, _ = in.Objects.Get(finding.Object{Kind: "PersistentVolume", Name: c.Spec.VolumeName}).(*corev1.PersistentVolume)
	return claim, v
}

// volumeSource says of what type a volume is and, of a claim's, which one and what stands behind
// it.
func volumeSource(in In, w journal.VolumeWaiting) string {
	claim, v := volumeOf(in, w.Volume)
	switch {
	case claim == "":
		for i := range in.Pod.Spec.Volumes {
			if x := in.Pod.Spec.Volumes[i]; x.Name == w.Volume && x.NFS != nil {
				return fmt.Sprintf("%s %s:%s", w.Type, x.NFS.Server, x.NFS.Path)
			}
		}
		return w.Type
	case v == nil:
		return w.Type + " " + claim
	}
	text := fmt.Sprintf("%s %s, PersistentVolume %s", w.Type, claim, v.Name)
	if _, where := sourceOf(v); where != "" {
		text += ": " + where
	}
	return text
}

// sourceOf is where the data of a PersistentVolume lie: the field and, for people, the place.
func sourceOf(v *corev1.PersistentVolume) (field, where string) {
	switch {
	case v.Spec.Local != nil:
		return "spec.local.path", "directory " + v.Spec.Local.Path
	case v.Spec.HostPath != nil:
		return "spec.hostPath.path", "directory " + v.Spec.HostPath.Path
	case v.Spec.NFS != nil:
		return "spec.nfs.server", v.Spec.NFS.Server + ":" + v.Spec.NFS.Path
	case v.Spec.CSI != nil:
		return "spec.csi.volumeHandle", fmt.Sprintf("volume %s of driver %s", v.Spec.CSI.VolumeHandle,
			v.Spec.CSI.Driver)
	}
	return "", ""
}

// behindClaim explains a volume whose claim leads to a directory that its node does not have; false
// where it is something else.
func behindClaim(a *Answer, in In, w journal.VolumeWaiting) bool {
	claim, v := volumeOf(in, w.Volume)
	if v == nil {
		return false
	}
	path := ""
	switch {
	case v.Spec.Local != nil:
		path = v.Spec.Local.Path
	case v.Spec.HostPath != nil:
		path = v.Spec.HostPath.Path
	}
	low := strings.ToLower(w.Message)
	missing := strings.Contains(low, "no such file") || strings.Contains(low, "does not exist")
	if path == "" || !missing && !strings.Contains(low, "is not a") && !strings.Contains(low, "not a directory") {
		return false
	}
	field, _ := sourceOf(v)
	node := in.Pod.Spec.NodeName
	is := "does not exist"
	if !missing {
		is = "is of another type"
	}
	a.Cause = fmt.Sprintf("Volume %s is not ready: its claim %s is bound to PersistentVolume %s, whose %s, %s, %s "+
		"on node %s.", w.Volume, claim, v.Name, field, path, is, node)
	a.Facts = append(a.Facts, "the kubelet's words: "+oneLine(w.Message))
	a.Next = "it is tried again with growing pauses"
	if missing {
		a.Fixes = textFixes(fmt.Sprintf("make it on node %s, or mount there what it should be: mkdir -p %s", node,
			shellquote.Word(path)))
	}
	a.Fixes = append(a.Fixes, Fix{Description: fmt.Sprintf("or make PersistentVolume %s anew with the right path: "+
		"what it leads to cannot be changed", v.Name)})
	a.Findings = append(a.Findings, finding.Finding{Code: "VolumePathMissing", Stage: finding.StageVolume,
		Object: finding.Object{Kind: "PersistentVolume", Name: v.Name}, Field: field, Value: path,
		Related: []finding.Object{in.object(), {Kind: "PersistentVolumeClaim", Namespace: in.Ref.Namespace,
			Name: claim},
			{Kind: "Node", Name: node}}, Message: a.Cause, Remedies: asRemedies(a.Fixes)})
	return true
}
