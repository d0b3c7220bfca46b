package gather

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/explain"
	"github.com/gantry-project/gantry/internal/scheduler/plugins"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/coscheduling"
	rulings "github.com/gantry-project/gantry/internal/scheduler/schedule"
)

// readClusterContext reads the cluster that Pods are placed in; nil when the caller may not see all
// of it, for then no result can be trusted. Of volumes and devices it reads what is demanded.
func readClusterContext(ctx context.Context, r *reader, d demand) *explain.ClusterContext {
	c := &explain.ClusterContext{}
	all := metav1.ListOptions{ResourceVersion: "0"}
	nodes, err := r.client.CoreV1().Nodes().List(ctx, all)
	if !r.seen("nodes", err) {
		return nil
	}
	pods, err := r.client.CoreV1().Pods("").List(ctx, all)
	if !r.seen("pods", err) {
		return nil
	}
	for i := range nodes.Items {
		c.Nodes = append(c.Nodes, &nodes.Items[i])
	}
	for i := range pods.Items {
		c.Pods = append(c.Pods, &pods.Items[i])
	}
	if classes, err := r.client.SchedulingV1().PriorityClasses().List(ctx, all); r.seen("priorityclasses", err) {
		for i := range classes.Items {
			c.Classes = append(c.Classes, &classes.Items[i])
		}
	}
	view := newPluginHandle(ctx, r, d)
	if c.Plugins, err = plugins.DefaultPluginSet(corev1.DefaultSchedulerName, view); err != nil {
		c.Plugins = nil // the answer does without trials
	}
	c.WithoutPods = func(deleted map[types.UID]bool) *rulings.PluginSet {
		then := view
		then.devices = view.devices.Without(deleted)
		schedulerPlugins, err := plugins.DefaultPluginSet(corev1.DefaultSchedulerName, then)
		if err != nil {
			return c.Plugins
		}
		return schedulerPlugins
	}
	return c
}

// readPodGroups reads the PodGroups around a Pod that is a member of one, as far as they are served
// and the caller may see them.
func readPodGroups(ctx context.Context, r *reader, in *explain.In) {
	readCoschedulingGroup(ctx, r, in)
	if in.Pod.Spec.SchedulingGroup == nil || in.ClusterContext == nil {
		return
	}
	groups, err := r.client.SchedulingV1beta1().PodGroups(in.Ref.Namespace).List(ctx, metav1.ListOptions{})
	if !r.seen("podgroups", err) {
		return
	}
	in.ClusterContext.Groups.Read = true
	for i := range groups.Items {
		in.ClusterContext.Groups.List = append(in.ClusterContext.Groups.List, &groups.Items[i])
	}
}

// readCoschedulingGroup reads the PodGroup of scheduling.x-k8s.io that the Pod's label names.
func readCoschedulingGroup(ctx context.Context, r *reader, in *explain.In) {
	name := coscheduling.PodGroupLabelOf(in.Pod)
	if name == "" || in.ClusterContext == nil {
		return
	}
	of := coscheduling.PodGroups
	raw, err := r.client.CoreV1().RESTClient().Get().AbsPath("apis", of.Group, of.Version, "namespaces",
		in.Ref.Namespace, of.Resource, name).SetHeader("Accept", "application/json").DoRaw(ctx)
	var g coscheduling.Group
	if r.seen("podgroups of "+of.Group, err) && json.Unmarshal(raw, &g) == nil {
		in.ClusterContext.Groups.Labelled = &g
	}
}
