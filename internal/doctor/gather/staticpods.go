package gather

import (
	"context"
	"encoding/json"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/internal/doctor"
	"github.com/gantry-project/gantry/internal/pod"
)

// unmirrored asks the API server for the mirrors of the static Pods that a kubelet lists at /pods;
// nil when the list cannot be read.
func unmirrored(ctx context.Context, client kubernetes.Interface, list []byte) []doctor.UnmirroredPod {
	var pods v1.PodList
	if json.Unmarshal(list, &pods) != nil {
		return nil
	}
	out := []doctor.UnmirroredPod{}
	for i := range pods.Items {
		p := &pods.Items[i]
		if !pod.IsStatic(p) || pod.IsMirror(p) {
			continue
		}
		x := doctor.UnmirroredPod{Namespace: p.Namespace, Name: p.Name}
		// upstream's annotation; without it the Pod is as old as can be
		x.Seen, _ = time.Parse(time.RFC3339Nano, p.Annotations["kubernetes.io/config.seen"])
		is, err := client.CoreV1().Pods(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			out = append(out, x)
		case err == nil && !pod.IsMirror(is):
			x.TakenBy = string(is.UID)
			out = append(out, x)
		}
	}
	return out
}
