package explain

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/shellquote"
)

// hostPathRestriction is a directory of the node that a container's user may not use: no field of a
// Pod gives it to a user or group, since fsGroup leaves hostPath volumes as they are.
func hostPathRestriction(in In, m corev1.VolumeMount, volume int, u user) restriction {
	at := in.Pod.Spec.Volumes[volume].HostPath.Path
	node, uid := in.Pod.Spec.NodeName, u.uid
	return restriction{field: u.field, value: fmt.Sprint(uid), text: fmt.Sprintf(
		"Volume %s at %s is %s of node %s, whose owner and mode keep user %d out: a hostPath stays as it is on the "+
			"node, and fsGroup does not change it.", m.Name, m.MountPath, at, node, uid), fixes: []Fix{
		{Description: fmt.Sprintf("give it to that user, on node %s: chown %d %s", node, uid, shellquote.Word(at))},
		editedPodFix(in, "or use an emptyDir or a claim instead, if the node's own files are not wanted: an emptyDir "+
			"ends with the Pod", func(s *corev1.PodSpec) {
			s.Volumes[volume].VolumeSource = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
			if s.SecurityContext == nil {
				s.SecurityContext = &corev1.PodSecurityContext{}
			}
			if s.SecurityContext.FSGroup == nil {
				s.SecurityContext.FSGroup = &uid
			}
		})}}
}
