// Package rootcacertpublisher publishes the CA of the API server to every namespace, as ConfigMap
// kube-root-ca.crt.
//
// The projected token volume of every Pod uses it. In: namespaces, ConfigMaps, the CA. Out: the
// ConfigMap, repaired.
package rootcacertpublisher

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

// ConfigMapName is the name of the published ConfigMap, and the key in it.
const (
	ConfigMapName = "kube-root-ca.crt"
	configMapKey  = "ca.crt"
)

const descriptionKey = "kubernetes.io/description"

const description = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal " +
	"endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across " +
	"distributions of Kubernetes clusters."

type controller struct {
	controllerContext controllerruntime.ControllerContext
	namespaces        corelisters.NamespaceLister
	maps              corelisters.ConfigMapLister
}

// New returns the controller.
func New(d controllerruntime.ControllerContext) controllerruntime.Runner {
	core := d.Informers.Core().V1()
	c := &controller{d, core.Namespaces().Lister(), core.ConfigMaps().Lister()}
	q := controllerruntime.NewQueue("rootca", 2, c.syncNamespace)
	q.WatchByKey(core.Namespaces().Informer())
	q.Watch(core.ConfigMaps().Informer(), func(old, cur runtime.Object) []string {
		if cur == nil {
			cur = old
		}
		if m := cur.(*corev1.ConfigMap); m.Name == ConfigMapName {
			return []string{m.Namespace}
		}
		return nil
	})
	return q
}

func (c *controller) syncNamespace(ctx context.Context, key string) (again time.Duration, err error) {
	defer func(begin time.Time) { countSync(c.controllerContext.Time().Sub(begin), err) }(c.controllerContext.Time())
	ns, err := c.namespaces.Get(key)
	if apierrors.IsNotFound(err) || err == nil && ns.DeletionTimestamp != nil {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	maps := c.controllerContext.Client.CoreV1().ConfigMaps(key)
	have, err := c.maps.ConfigMaps(key).Get(ConfigMapName)
	switch {
	case apierrors.IsNotFound(err):
		_, err = maps.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: ConfigMapName,
				Annotations: map[string]string{descriptionKey: description}},
			Data: c.data(),
		}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return 0, nil
		}
	case err == nil && (len(have.Data) != 1 || have.Data[configMapKey] != string(c.controllerContext.RootCA) ||
		have.Annotations[descriptionKey] != description):
		mended := have.DeepCopy()
		mended.Data = c.data()
		metav1.SetMetaDataAnnotation(&mended.ObjectMeta, descriptionKey, description)
		_, err = maps.Update(ctx, mended, metav1.UpdateOptions{})
	}
	return 0, err
}

func (c *controller) data() map[string]string {
	return map[string]string{configMapKey: string(c.controllerContext.RootCA)}
}
