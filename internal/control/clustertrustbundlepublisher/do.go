// Package clustertrustbundlepublisher publishes the CA of the API server's certificate as a
// ClusterTrustBundle of its signer (KEP-3257).
//
// Pods that mount it in a projected volume verify the API server without the ConfigMap of their
// namespace. In: the CA, ClusterTrustBundles. Out: one bundle, repaired; others of the same signer
// are deleted.
package clustertrustbundlepublisher

import (
	"context"
	"errors"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	certificateslisters "k8s.io/client-go/listers/certificates/v1"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
)

// Signer is the signer of the API server's serving certificates.
const Signer = "kubernetes.io/kube-apiserver-serving"

type controller struct {
	controllerContext controllerruntime.ControllerContext
	bundles           certificateslisters.ClusterTrustBundleLister
}

// New returns the controller.
func New(d controllerruntime.ControllerContext) controllerruntime.Runner {
	bundles := d.Informers.Certificates().V1().ClusterTrustBundles()
	c := &controller{d, bundles.Lister()}
	q := controllerruntime.NewQueue("clustertrustbundle", 1, c.syncBundle)
	q.Watch(bundles.Informer(), func(old, cur runtime.Object) []string {
		if cur == nil {
			cur = old
		}
		if b := cur.(*certificatesv1.ClusterTrustBundle); b.Spec.SignerName != Signer {
			return nil
		}
		return []string{Signer}
	})
	q.Add(Signer)
	return q
}

func (c *controller) syncBundle(ctx context.Context, signer string) (again time.Duration, err error) {
	begin := c.controllerContext.Time()
	defer func() { countSync(c.controllerContext.Time().Sub(begin), err) }()
	have, err := c.bundles.List(labels.Everything())
	if err != nil {
		return 0, err
	}
	p := Decide(signer, string(c.controllerContext.RootCA), have)
	api := c.controllerContext.Client.CertificatesV1().ClusterTrustBundles()
	if p.Create != nil {
		if _, err := api.Create(ctx, p.Create, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return 0, err // if it exists already, its watch event follows
		}
	}
	if p.Update != nil {
		if _, err := api.Update(ctx, p.Update, metav1.UpdateOptions{}); err != nil {
			return 0, err
		}
	}
	var errs []error
	for _, name := range p.Delete {
		if err := api.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	return 0, errors.Join(errs...)
}
