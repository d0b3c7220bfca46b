package gather

import (
	"context"
	"encoding/json"

	"k8s.io/client-go/kubernetes"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
)

// processLimit is podPidsLimit of a node's kubelet; 0 where there is none, or it does not tell.
func processLimit(ctx context.Context, client kubernetes.Interface, node string) int64 {
	if node == "" {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, localImagesTimeout)
	defer cancel()
	raw, err := client.CoreV1().RESTClient().Get().Resource("nodes").Name(node).SubResource("proxy").Suffix(
		"configz").DoRaw(ctx)
	if err != nil {
		return 0
	}
	var c struct {
		Config *kubeletconfig.KubeletConfiguration `json:"kubeletconfig"`
	}
	if json.Unmarshal(raw, &c) != nil || c.Config == nil || c.Config.PodPidsLimit == nil {
		return 0
	}
	return max(*c.Config.PodPidsLimit, 0)
}
