// Package serviceaccount maintains the ServiceAccount default in every namespace.
//
// A Pod without serviceAccountName uses it. In: namespaces and accounts. Out: the missing account.
package serviceaccount

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
)

const defaultName = "default"

type controller struct {
	controllerContext controllerruntime.ControllerContext
	namespaces        corelisters.NamespaceLister
	accounts          corelisters.ServiceAccountLister
}

// New returns the controller.
func New(d controllerruntime.ControllerContext) controllerruntime.Runner {
	core := d.Informers.Core().V1()
	c := &controller{d, core.Namespaces().Lister(), core.ServiceAccounts().Lister()}
	q := controllerruntime.NewQueue("serviceaccount", 2, c.syncNamespace)
	q.WatchByKey(core.Namespaces().Informer())
	q.Watch(core.ServiceAccounts().Informer(), func(old, cur runtime.Object) []string {
		if old != nil && cur == nil {
			return []string{old.(*corev1.ServiceAccount).Namespace}
		}
		return nil
	})
	return q
}

func (c *controller) syncNamespace(ctx context.Context, key string) (time.Duration, error) {
	ns, err := c.namespaces.Get(key)
	if apierrors.IsNotFound(err) || err == nil && ns.DeletionTimestamp != nil {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if _, err := c.accounts.ServiceAccounts(key).Get(defaultName); !apierrors.IsNotFound(err) {
		return 0, err
	}
	_, err = c.controllerContext.Client.CoreV1().ServiceAccounts(key).Create(ctx,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: defaultName}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return 0, nil
	}
	return 0, err
}
