package gather

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain"
	"github.com/gantry-project/gantry/internal/explain/finding"
)

// nameAnswer is the answer about a name with a dot that is no Pod's: what the cluster's name
// servers say of it. ok is false where it is no name of the cluster's. A name without a dot is an
// object's, of which the answer says in which kinds and namespaces there is one.
func nameAnswer(ctx context.Context, r *reader, o finding.Object) (explain.Answer, bool) {
	if !strings.Contains(o.Name, ".") {
		return explain.Answer{}, false
	}
	c := &finding.Cluster{}
	read := func(kind, ns string) {
		row, ok := rowOf(kind)
		if !ok {
			return
		}
		l, err := row.list(ctx, r.client, ns, metav1.ListOptions{ResourceVersion: "0"})
		if r.seen(kind, err) {
			c.Add(kind, extracted(l)...)
		}
	}
	read("Namespace", "")
	read("Service", "")
	ns, ok := finding.HostOf(c, o.Name, o.Namespace)
	if !ok {
		return explain.Answer{}, false
	}
	read("StatefulSet", ns)
	read("EndpointSlice", ns)
	pods, err := r.client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if r.seen("pods", err) {
		c.Add("Pod", extracted(pods)...)
	}
	f, ok := finding.Host(c, o.Name, o.Namespace)
	if !ok {
		return explain.Answer{}, false
	}
	a := explain.AboutName(o, f)
	a.Unread = r.unread
	return a, true
}
