package nodes

import (
	"sort"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/node"
)

func table() resourcedef.Table {
	status, info := v1.NodeStatus{}.SwaggerDoc(), v1.NodeSystemInfo{}.SwaggerDoc()
	return resourcedef.Table{
		Columns: append([]metav1.TableColumnDefinition{
			printers.NameColumn(),
			printers.StringColumn("Status", "The status of the node"),
			printers.StringColumn("Roles", "The roles of the node"),
			printers.AgeColumn(),
			printers.StringColumn("Version", info["kubeletVersion"]),
		}, printers.WideColumns(
			printers.StringColumn("Internal-IP", status["addresses"]),
			printers.StringColumn("External-IP", status["addresses"]),
			printers.StringColumn("OS-Image", info["osImage"]),
			printers.StringColumn("Kernel-Version", info["kernelVersion"]),
			printers.StringColumn("Container-Runtime", info["containerRuntimeVersion"]),
		)...),
		Row: func(o runtime.Object, opt resourcedef.RowOptions) []any { return Row(o.(*v1.Node), opt.Now) },
	}
}

// Row is a Node's line in `kubectl get nodes -o wide`.
func Row(n *v1.Node, now metav1.Time) []any {
	i := n.Status.NodeInfo
	kernel := orUnknown(i.KernelVersion)
	if i.Architecture != "" {
		kernel += " (" + i.Architecture + ")"
	}
	return []any{
		n.Name, statusCell(n), printers.ValueOrNone(strings.Join(roles(n), ",")),
		printers.TimestampSince(n.CreationTimestamp, now), i.KubeletVersion,
		address(n, v1.NodeInternalIP), address(n, v1.NodeExternalIP), orUnknown(i.OSImage), kernel,
		orUnknown(i.ContainerRuntimeVersion),
	}
}

func statusCell(n *v1.Node) string {
	out := "Unknown"
	if node.ReadyCondition(n) != nil {
		out = "NotReady"
	}
	if node.IsReady(n) {
		out = "Ready"
	}
	if n.Spec.Unschedulable {
		out += ",SchedulingDisabled"
	}
	return out
}

// roles are what the labels node-role.kubernetes.io/ROLE and kubernetes.io/role=ROLE say, sorted.
func roles(n *v1.Node) []string {
	set := map[string]bool{}
	for k, v := range n.Labels {
		switch role, ok := strings.CutPrefix(k, "node-role.kubernetes.io/"); {
		case ok && role != "":
			set[role] = true
		case k == "kubernetes.io/role" && v != "":
			set[v] = true
		}
	}
	out := make([]string, 0, len(set))
	for r := range set {
		out = append(out, r)
	}
	sort.Strings(out)
	return out
}

func address(n *v1.Node, t v1.NodeAddressType) string {
	for _, a := range n.Status.Addresses {
		if a.Type == t {
			return a.Address
		}
	}
	return "<none>"
}

func orUnknown(s string) string {
	if s == "" {
		return "<unknown>"
	}
	return s
}
