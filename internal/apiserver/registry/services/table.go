package services

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

func table() resourcedef.Table {
	spec := v1.ServiceSpec{}.SwaggerDoc()
	return resourcedef.Table{
		Columns: append([]metav1.TableColumnDefinition{
			printers.NameColumn(), printers.StringColumn("Type", spec["type"]),
			printers.StringColumn("Cluster-IP", spec["clusterIP"]),
			printers.StringColumn("External-IP", spec["externalIPs"]),
			printers.StringColumn("Port(s)", spec["ports"]), printers.AgeColumn(),
		}, printers.WideColumns(printers.StringColumn("Selector", spec["selector"]))...),
		Row: func(o runtime.Object, opt resourcedef.RowOptions) []any { return Row(o.(*v1.Service), opt.Now) },
	}
}

// Row returns the cells of a Service in `kubectl get services -o wide`.
func Row(s *v1.Service, now metav1.Time) []any {
	ip := "<none>"
	if len(s.Spec.ClusterIPs) > 0 {
		ip = s.Spec.ClusterIPs[0]
	}
	return []any{s.Name, string(s.Spec.Type), ip, externalCell(s), portsCell(s.Spec.Ports),
		printers.TimestampSince(s.CreationTimestamp, now), printers.FormatLabels(s.Spec.Selector)}
}

func portsCell(ports []v1.ServicePort) string {
	out := make([]string, len(ports))
	for i, p := range ports {
		out[i] = fmt.Sprintf("%d/%s", p.Port, p.Protocol)
		if p.NodePort > 0 {
			out[i] = fmt.Sprintf("%d:%d/%s", p.Port, p.NodePort, p.Protocol)
		}
	}
	return printers.ValueOrNone(strings.Join(out, ","))
}

func externalCell(s *v1.Service) string {
	switch s.Spec.Type {
	case v1.ServiceTypeClusterIP, v1.ServiceTypeNodePort:
		return printers.ValueOrNone(strings.Join(s.Spec.ExternalIPs, ","))
	case v1.ServiceTypeLoadBalancer:
		set := map[string]bool{}
		for _, in := range s.Status.LoadBalancer.Ingress {
			switch {
			case in.IP != "":
				set[in.IP] = true
			case in.Hostname != "":
				set[in.Hostname] = true
			}
		}
		all := append(slices.Sorted(maps.Keys(set)), s.Spec.ExternalIPs...)
		if len(all) == 0 {
			return "<pending>"
		}
		return strings.Join(all, ",")
	case v1.ServiceTypeExternalName:
		return s.Spec.ExternalName
	}
	return "<unknown>"
}
