// Package clusterroleaggregation fills aggregating ClusterRoles with the rules of the selected
// ones.
//
// So admin, edit and view cover all kinds that a cluster serves. In: ClusterRoles. Out: rules of
// the aggregating ones.
package clusterroleaggregation

import (
	"context"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/gantry-project/gantry/internal/clusterrole"
	"github.com/gantry-project/gantry/internal/control/controllerruntime"
)

const manager = "clusterrole-aggregation-controller"

type controller struct {
	controllerContext controllerruntime.ControllerContext
	roles             rbaclisters.ClusterRoleLister
}

// New returns the controller.
func New(d controllerruntime.ControllerContext) controllerruntime.Runner {
	roles := d.Informers.Rbac().V1().ClusterRoles()
	c := &controller{d, roles.Lister()}
	q := controllerruntime.NewQueue("clusterroles", 1, c.syncClusterRole)
	q.Watch(roles.Informer(), c.aggregatingRoles)
	return q
}

// aggregatingRoles returns all aggregating roles: any change may affect each of them, and there are
// few.
func (c *controller) aggregatingRoles(_, _ runtime.Object) []string {
	all, _ := c.roles.List(labels.Everything())
	var names []string
	for _, r := range all {
		if r.AggregationRule != nil {
			names = append(names, r.Name)
		}
	}
	return names
}

func (c *controller) syncClusterRole(ctx context.Context, name string) (time.Duration, error) {
	role, err := c.roles.Get(name)
	if apierrors.IsNotFound(err) || err == nil && role.AggregationRule == nil {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	all, err := c.roles.List(labels.Everything())
	if err != nil {
		return 0, err
	}
	rules, err := clusterrole.AggregateRules(role, all)
	if err != nil || equality.Semantic.DeepEqual(role.Rules, rules) {
		return 0, err
	}
	// Server-side apply owns only the rules field, so that others may label the role.
	body, err := yaml.Marshal(map[string]any{"apiVersion": rbacv1.SchemeGroupVersion.String(), "kind": "ClusterRole",
		"metadata": map[string]any{"name": name}, "rules": rules})
	if err != nil {
		return 0, err
	}
	force := true
	_, err = c.controllerContext.Client.RbacV1().ClusterRoles().Patch(ctx, name, types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: manager, Force: &force})
	return 0, err
}
