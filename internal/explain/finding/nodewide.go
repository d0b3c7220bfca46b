package finding

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nodeReasons are reasons of warnings about Pods that come from their node's own configuration.
var nodeReasons = []string{"DNSConfigForming", "MissingClusterDNS", "CheckLimitsForResolvConf", "InvalidDiskCapacity",
	"ContainerGCFailed", "ImageGCFailed"}

// nodeOf is the node that a warning about a Pod is really about: one of a node's own
// configuration, or one that Pods of several owners there have in the same words. ok is false
// where it is the Pod's own.
func (c *Cluster) nodeOf(o metav1.Object, self Object, e *corev1.Event) (node Object, ok bool) {
	p, isPod := o.(*corev1.Pod)
	if !isPod || p.Spec.NodeName == "" {
		return Object{}, false
	}
	node = Object{Kind: "Node", Name: p.Spec.NodeName}
	if slices.Contains(nodeReasons, e.Reason) {
		return node, true
	}
	own := c.outermost(o, self)
	for i := range c.Events {
		x := &c.Events[i]
		if x.Reason != e.Reason || x.Type != e.Type || x.InvolvedObject.Kind != "Pod" ||
			x.InvolvedObject.Name == self.Name && x.InvolvedObject.Namespace == self.Namespace ||
			strings.ReplaceAll(x.Message, x.InvolvedObject.Name, "") != strings.ReplaceAll(e.Message, self.Name, "") {
			continue
		}
		other, known := get[*corev1.Pod](c, "Pod", x.InvolvedObject.Namespace, x.InvolvedObject.Name)
		if known && other.Spec.NodeName == p.Spec.NodeName && c.outermost(other, objectOf("Pod", other)) != own {
			return node, true
		}
	}
	return Object{}, false
}
