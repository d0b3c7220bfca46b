package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// Run maintains tokens and signatures until ctx ends.
func Run(ctx context.Context, c kubernetes.Interface) {
	wake := make(chan struct{}, 1)
	poke := func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	secrets := newInformerFactory(c, metav1.NamespaceSystem,
		fields.OneTermEqualSelector("type", string(corev1.SecretTypeBootstrapToken))).Core().V1().Secrets().Informer()
	maps := newInformerFactory(c, metav1.NamespacePublic,
		fields.OneTermEqualSelector("metadata.name", clusterInfoConfigMap)).Core().V1().ConfigMaps().Informer()
	for _, i := range []cache.SharedIndexInformer{secrets, maps} {
		// AddEventHandler only fails on a stopped informer
		_, _ = i.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) { poke() },
			UpdateFunc: func(_, _ any) { poke() }, DeleteFunc: func(any) { poke() }})
		go i.RunWithContext(ctx)
	}
	if !cache.WaitForCacheSync(ctx.Done(), secrets.HasSynced, maps.HasSynced) {
		return
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-wake:
		case <-timer.C:
		}
		next, err := sync(ctx, c, secrets.GetStore(), maps.GetStore())
		if err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Bootstrap tokens could not be kept; the next try is in ten seconds")
			next = 10 * time.Second
		}
		if next > 0 {
			timer.Reset(next)
		}
	}
}

func newInformerFactory(c kubernetes.Interface, namespace string,
	selector fields.Selector) informers.SharedInformerFactory {
	return informers.NewSharedInformerFactoryWithOptions(c, 0, informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.FieldSelector = selector.String() }))
}

// sync does what is due and returns the time until the next token expires.
func sync(ctx context.Context, c kubernetes.Interface, secrets, maps cache.Store) (time.Duration, error) {
	var all []*corev1.Secret
	for _, o := range secrets.List() {
		if s, ok := o.(*corev1.Secret); ok {
			all = append(all, s)
		}
	}
	var info *corev1.ConfigMap
	for _, o := range maps.List() {
		if m, ok := o.(*corev1.ConfigMap); ok {
			info = m
		}
	}
	p := Decide(all, info, time.Now())
	var failed error
	for _, s := range p.Expired {
		err := c.CoreV1().Secrets(s.Namespace).Delete(ctx, s.Name,
			metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &s.UID}})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			failed = errors.Join(failed, fmt.Errorf("delete the expired token %s: %w", s.Name, err))
		}
	}
	if p.ClusterInfo != nil {
		if _, err := c.CoreV1().ConfigMaps(p.ClusterInfo.Namespace).Update(ctx, p.ClusterInfo,
			metav1.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			failed = errors.Join(failed, fmt.Errorf("sign %s: %w", clusterInfoConfigMap, err))
		}
	}
	return p.NextExpiry, failed
}
