package policy

import (
	"context"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	rbacinformers "k8s.io/client-go/informers/rbac/v1"
	rbacclient "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// KeepSums keeps the rules of aggregated ClusterRoles equal to the sum of the roles they select, until the context ends.
func KeepSums(ctx context.Context, informer rbacinformers.ClusterRoleInformer, c rbacclient.ClusterRoleInterface) error {
	bell := make(chan struct{}, 1)
	ring := func() {
		select {
		case bell <- struct{}{}:
		default:
		}
	}
	reg, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { ring() }, UpdateFunc: func(_, _ any) { ring() }, DeleteFunc: func(any) { ring() },
	})
	if err != nil {
		return err
	}
	defer func() { _ = informer.Informer().RemoveEventHandler(reg) }()
	if !cache.WaitForCacheSync(ctx.Done(), reg.HasSynced) {
		return nil
	}
	log := klog.FromContext(ctx)
	for {
		all, err := informer.Lister().List(labels.Everything())
		if err == nil {
			err = writeSums(ctx, c, all)
		}
		again := make(<-chan time.Time)
		if err != nil && ctx.Err() == nil {
			log.Error(err, "Aggregated ClusterRoles are not up to date; trying again")
			again = time.After(time.Second)
		}
		select {
		case <-bell:
		case <-again:
		case <-ctx.Done():
			return nil
		}
	}
}

func writeSums(ctx context.Context, c rbacclient.ClusterRoleInterface, all []*rbacv1.ClusterRole) error {
	var last error
	for _, r := range all {
		if r.AggregationRule == nil {
			continue
		}
		rules, err := Sum(r, all)
		if err != nil {
			klog.FromContext(ctx).Error(err, "ClusterRole has an aggregation rule that cannot be read", "clusterRole", r.Name)
			continue
		}
		if equality.Semantic.DeepEqual(rules, r.Rules) {
			continue
		}
		next := r.DeepCopy()
		next.Rules = rules
		_, err = c.Update(ctx, next, metav1.UpdateOptions{FieldManager: "clusterrole-aggregation-controller"})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) { // a newer version rings again
			last = err
		}
	}
	return last
}
