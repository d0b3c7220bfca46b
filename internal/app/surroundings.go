package app

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/internal/explain"
	rulings "github.com/gantry-project/gantry/internal/scheduler/place"
	"github.com/gantry-project/gantry/internal/scheduler/plugins"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/coscheduling"
)

// surroundings reads the world that Pods are placed in; nil when the asker may not see all of it, for then no ruling can be trusted.
func surroundings(ctx context.Context, client kubernetes.Interface) *explain.Cluster {
	c := &explain.Cluster{}
	all := metav1.ListOptions{ResourceVersion: "0"}
	nodes, err := client.CoreV1().Nodes().List(ctx, all)
	if err != nil {
		return nil
	}
	pods, err := client.CoreV1().Pods("").List(ctx, all)
	if err != nil {
		return nil
	}
	for i := range nodes.Items {
		c.Nodes = append(c.Nodes, &nodes.Items[i])
	}
	for i := range pods.Items {
		c.Pods = append(c.Pods, &pods.Items[i])
	}
	if classes, err := client.SchedulingV1().PriorityClasses().List(ctx, all); err == nil {
		for i := range classes.Items {
			c.Classes = append(c.Classes, &classes.Items[i])
		}
	}
	view := newJudgesView(ctx, client, all)
	if c.Judges, err = plugins.Judges(corev1.DefaultSchedulerName, view); err != nil {
		c.Judges = nil // the answer does without trials
	}
	c.Without = func(gone map[types.UID]bool) *rulings.Judges {
		then := view
		then.devices = view.devices.Without(gone)
		judges, err := plugins.Judges(corev1.DefaultSchedulerName, then)
		if err != nil {
			return c.Judges
		}
		return judges
	}
	return c
}

// readGroups reads the PodGroups around a Pod that is a member of one, as far as they are served and the asker may see them.
func readGroups(ctx context.Context, client kubernetes.Interface, in *explain.In) {
	readLabelled(ctx, client, in)
	if in.Pod.Spec.SchedulingGroup == nil || in.Cluster == nil {
		return
	}
	groups, err := client.SchedulingV1beta1().PodGroups(in.Ref.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	in.Cluster.Groups.Read = true
	for i := range groups.Items {
		in.Cluster.Groups.List = append(in.Cluster.Groups.List, &groups.Items[i])
	}
}

// readLabelled reads the PodGroup of scheduling.x-k8s.io that the Pod's label names.
func readLabelled(ctx context.Context, client kubernetes.Interface, in *explain.In) {
	name := coscheduling.Of(in.Pod)
	if name == "" || in.Cluster == nil {
		return
	}
	r := coscheduling.PodGroups
	raw, err := client.CoreV1().RESTClient().Get().AbsPath("apis", r.Group, r.Version, "namespaces", in.Ref.Namespace, r.Resource, name).DoRaw(ctx)
	var g coscheduling.Group
	if err == nil && json.Unmarshal(raw, &g) == nil {
		in.Cluster.Groups.Labelled = &g
	}
}
