package plain

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/internal/apiserver/registry/column"
	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
)

// Apps are the rows of apps/v1.
func Apps() []kind.Kind {
	return []kind.Kind{deployments(), replicaSets(), statefulSets(), daemonSets(), controllerRevisions()}
}

// workload is what the kinds with a Pod template share.
func workload(resource, singular, kindName string, short ...string) kind.Kind {
	return kind.Kind{
		Group: appsv1.GroupName, Version: "v1", Resource: resource, Singular: singular, Kind: kindName,
		Names: kind.Names{Short: short, Categories: []string{"all"}},
		Rules: kind.Rules{AllowUnconditionalUpdate: true},
	}
}

// templateColumns are the wide columns over a Pod template and its selector.
func templateColumns(selector string) []metav1.TableColumnDefinition {
	return column.Wide(
		column.Def("Containers", "Names of each container in the template."),
		column.Def("Images", "Images referenced by each container in the template."),
		column.Def("Selector", selector),
	)
}

func deployments() kind.Kind {
	k := workload("deployments", "deployment", "Deployment", "deploy")
	k.Types = types[appsv1.Deployment, appsv1.DeploymentList]()
	k.Types.Namespaced, k.Types.HasStatus = true, true
	k.Rules.Default = func(o runtime.Object) { defaultDeployment(o.(*appsv1.Deployment)) }
	k.Rules.PrepareUpdate = func(_ context.Context, o, old runtime.Object) {
		d, was := o.(*appsv1.Deployment), old.(*appsv1.Deployment)
		if !apiequality.Semantic.DeepEqual(d.Spec, was.Spec) || !apiequality.Semantic.DeepEqual(d.Annotations, was.Annotations) {
			d.Generation = was.Generation + 1 // annotations are copied to ReplicaSets, so they count
		}
	}
	spec, status := appsv1.DeploymentSpec{}.SwaggerDoc(), appsv1.DeploymentStatus{}.SwaggerDoc()
	k.Table = kind.Table{
		Columns: append([]metav1.TableColumnDefinition{
			column.Name(), column.Def("Ready", "Number of the pod with ready state"),
			column.Def("Up-to-date", status["updatedReplicas"]), column.Def("Available", status["availableReplicas"]), column.Age(),
		}, templateColumns(spec["selector"])...),
		Row: row(func(d *appsv1.Deployment, o kind.RowOptions) []any {
			names, images := column.Containers(d.Spec.Template.Spec.Containers)
			return []any{
				d.Name, fmt.Sprintf("%d/%d", d.Status.ReadyReplicas, number(d.Spec.Replicas)), int64(d.Status.UpdatedReplicas), int64(d.Status.AvailableReplicas),
				column.Since(d.CreationTimestamp, o.Now), names, images, column.Selector(d.Spec.Selector),
			}
		}),
	}
	return k
}

func replicaSets() kind.Kind {
	k := workload("replicasets", "replicaset", "ReplicaSet", "rs")
	k.Types = types[appsv1.ReplicaSet, appsv1.ReplicaSetList]()
	k.Types.Namespaced, k.Types.HasStatus = true, true
	k.Rules.Default = func(o runtime.Object) { defaultReplicaSet(o.(*appsv1.ReplicaSet)) }
	spec, status := appsv1.ReplicaSetSpec{}.SwaggerDoc(), appsv1.ReplicaSetStatus{}.SwaggerDoc()
	k.Table = kind.Table{
		Columns: append([]metav1.TableColumnDefinition{
			column.Name(), column.Int("Desired", spec["replicas"]), column.Int("Current", status["replicas"]), column.Int("Ready", status["readyReplicas"]), column.Age(),
		}, templateColumns(spec["selector"])...),
		Row: row(func(r *appsv1.ReplicaSet, o kind.RowOptions) []any {
			names, images := column.Containers(r.Spec.Template.Spec.Containers)
			return []any{
				r.Name, int64(number(r.Spec.Replicas)), int64(r.Status.Replicas), int64(r.Status.ReadyReplicas), column.Since(r.CreationTimestamp, o.Now),
				names, images, column.Selector(r.Spec.Selector),
			}
		}),
	}
	return k
}

func statefulSets() kind.Kind {
	k := workload("statefulsets", "statefulset", "StatefulSet", "sts")
	k.Types = types[appsv1.StatefulSet, appsv1.StatefulSetList]()
	k.Types.Namespaced, k.Types.HasStatus = true, true
	k.Rules.Default = func(o runtime.Object) { defaultStatefulSet(o.(*appsv1.StatefulSet)) }
	k.Table = kind.Table{
		Columns: append([]metav1.TableColumnDefinition{
			column.Name(), column.Def("Ready", "Number of the pod with ready state"), column.Age(),
		}, templateColumns("")[:2]...),
		Row: row(func(s *appsv1.StatefulSet, o kind.RowOptions) []any {
			names, images := column.Containers(s.Spec.Template.Spec.Containers)
			return []any{s.Name, fmt.Sprintf("%d/%d", s.Status.ReadyReplicas, number(s.Spec.Replicas)), column.Since(s.CreationTimestamp, o.Now), names, images}
		}),
	}
	return k
}

func daemonSets() kind.Kind {
	k := workload("daemonsets", "daemonset", "DaemonSet", "ds")
	k.Types = types[appsv1.DaemonSet, appsv1.DaemonSetList]()
	k.Types.Namespaced, k.Types.HasStatus = true, true
	k.Rules.Default = func(o runtime.Object) { defaultDaemonSet(o.(*appsv1.DaemonSet)) }
	spec, status := appsv1.DaemonSetSpec{}.SwaggerDoc(), appsv1.DaemonSetStatus{}.SwaggerDoc()
	k.Table = kind.Table{
		Columns: append([]metav1.TableColumnDefinition{
			column.Name(), column.Int("Desired", status["desiredNumberScheduled"]), column.Int("Current", status["currentNumberScheduled"]),
			column.Int("Ready", status["numberReady"]), column.Int("Up-to-date", status["updatedNumberScheduled"]),
			column.Int("Available", status["numberAvailable"]), column.Def("Node Selector", corev1.PodSpec{}.SwaggerDoc()["nodeSelector"]), column.Age(),
		}, templateColumns(spec["selector"])...),
		Row: row(func(d *appsv1.DaemonSet, o kind.RowOptions) []any {
			names, images := column.Containers(d.Spec.Template.Spec.Containers)
			s := &d.Status
			return []any{
				d.Name, int64(s.DesiredNumberScheduled), int64(s.CurrentNumberScheduled), int64(s.NumberReady), int64(s.UpdatedNumberScheduled), int64(s.NumberAvailable),
				labels.FormatLabels(d.Spec.Template.Spec.NodeSelector), column.Since(d.CreationTimestamp, o.Now), names, images, column.Selector(d.Spec.Selector),
			}
		}),
	}
	return k
}

func controllerRevisions() kind.Kind {
	k := kind.Kind{
		Group: appsv1.GroupName, Version: "v1", Resource: "controllerrevisions", Singular: "controllerrevision", Kind: "ControllerRevision",
		Types: types[appsv1.ControllerRevision, appsv1.ControllerRevisionList](),
		Rules: kind.Rules{AllowUnconditionalUpdate: true},
	}
	k.Types.Namespaced, k.Types.NoGenerate = true, true
	k.Table = kind.Table{
		Columns: []metav1.TableColumnDefinition{
			column.Name(), column.Def("Controller", "Controller of the object"),
			column.Def("Revision", appsv1.ControllerRevision{}.SwaggerDoc()["revision"]), column.Age(),
		},
		Row: row(func(c *appsv1.ControllerRevision, o kind.RowOptions) []any {
			owner := "<none>"
			if ref := metav1.GetControllerOf(c); ref != nil {
				owner = strings.ToLower(ref.Kind) + "." + strings.Split(ref.APIVersion, "/")[0] + "/" + ref.Name
			}
			return []any{c.Name, owner, c.Revision, column.Since(c.CreationTimestamp, o.Now)}
		}),
	}
	return k
}

func number(n *int32) int32 {
	if n == nil {
		return 0
	}
	return *n
}
