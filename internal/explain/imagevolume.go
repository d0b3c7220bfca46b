package explain

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
)

// imageVolume is the index of the volume whose image a container waits for, by the words of its
// state; -1 where they are about the container's own image.
func imageVolume(p *corev1.Pod, c container, words string) int {
	for i, v := range p.Spec.Volumes {
		if v.Image == nil || v.Image.Reference == "" || v.Image.Reference == c.spec.Image {
			continue
		}
		for _, m := range c.spec.VolumeMounts {
			if m.Name == v.Name && strings.Contains(words, v.Image.Reference) {
				return i
			}
		}
	}
	return -1
}

// volumeImageText says which volume's image a container waits for.
func volumeImageText(c container, v *corev1.Volume, words string) string {
	s := fmt.Sprintf("%s waits for the image %s of volume %s: %s.", c.title(), v.Image.Reference, v.Name,
		strings.TrimSuffix(words, "."))
	if v.Image.PullPolicy == corev1.PullNever {
		s += " The volume's pullPolicy Never forbids to fetch it."
	}
	return s
}

// volumeImageFinding is the image of a volume that a container waits for, as data; f has its object
// and numbers.
func volumeImageFinding(in In, c container, f finding.Finding) finding.Finding {
	w := c.waiting()
	i := imageVolume(in.Pod, c, w.Message)
	v := &in.Pod.Spec.Volumes[i]
	f.Code, f.Stage = w.Reason, finding.StageVolume
	f.Field, f.Value = fmt.Sprintf("spec.volumes[%d].image.reference", i), v.Image.Reference
	if v.Image.PullPolicy == corev1.PullNever {
		f.Field, f.Want = fmt.Sprintf("spec.volumes[%d].image.pullPolicy", i), string(corev1.PullIfNotPresent)
		f.Value = string(corev1.PullNever)
	}
	f.Message = volumeImageText(c, v, w.Message)
	f.Remedies = asRemedies(volumeImageFixes(v))
	return f
}

// volumeImageAnswer explains a container that waits for the image of the volume with an index.
func volumeImageAnswer(in In, c container, w *corev1.ContainerStateWaiting, i int) *Answer {
	v := &in.Pod.Spec.Volumes[i]
	return &Answer{State: w.Reason, Cause: volumeImageText(c, v, w.Message), Fixes: volumeImageFixes(v),
		shared: "image " + v.Image.Reference}
}

func volumeImageFixes(v *corev1.Volume) []Fix {
	if v.Image.PullPolicy == corev1.PullNever {
		return textFixes(fmt.Sprintf("let the kubelet pull it (pullPolicy IfNotPresent of volume %s), or import the "+
			"image on the node", v.Name))
	}
	return textFixes(fmt.Sprintf("name an image in volume %s that is there, with credentials for its registry", v.Name))
}
