package noderole

import (
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/cri/crictl"
)

// requestLogVerbosity is the verbosity at which the kubelet's log shows what the runtime is asked
// for, as upstream's does.
const requestLogVerbosity = 10

// sandboxRequests writes the requests for sandboxes into the log, in the form that `crictl --debug`
// shows; nil where nobody would read them. Requests of other kinds hold secrets.
func sandboxRequests() func(request, answer proto.Message) {
	if !klog.V(requestLogVerbosity).Enabled() {
		return nil
	}
	return func(request, answer proto.Message) {
		if q, ok := request.(*runtimeapi.RunPodSandboxRequest); ok {
			id := ""
			if a, ok := answer.(*runtimeapi.RunPodSandboxResponse); ok {
				id = a.GetPodSandboxId()
			}
			klog.V(requestLogVerbosity).InfoS("Asked the runtime for a sandbox",
				"pod", klog.KRef(q.GetConfig().GetMetadata().GetNamespace(), q.GetConfig().GetMetadata().GetName()),
				"podSandboxID", id, "request", crictl.Text(q))
		}
	}
}
