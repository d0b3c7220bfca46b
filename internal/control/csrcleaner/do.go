// Package csrcleaner deletes old certificate requests: answered ones after an hour, unanswered ones
// after a day, those of Pods after a quarter of an hour.
//
// In: CertificateSigningRequests, PodCertificateRequests. Out: their deletion.
package csrcleaner

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
)

// New returns the controller for CertificateSigningRequests.
func New(d controllerruntime.ControllerContext) controllerruntime.Runner {
	requests := d.Informers.Certificates().V1().CertificateSigningRequests()
	q := controllerruntime.NewQueue("certcleaner", 1, func(ctx context.Context, name string) (time.Duration, error) {
		r, err := requests.Lister().Get(name)
		if err != nil {
			return 0, controllerruntime.IgnoreNotFound(err)
		}
		if left := TimeLeft(r, d.Time()); left > 0 {
			return left, nil
		}
		return 0, controllerruntime.IgnoreNotFound(d.Client.CertificatesV1().CertificateSigningRequests().Delete(ctx,
			name, uidPrecondition(r.UID)))
	})
	q.WatchByKey(requests.Informer())
	return q
}

// NewPodCertificateRequestCleaner returns the controller for PodCertificateRequests (KEP-4317).
func NewPodCertificateRequestCleaner(d controllerruntime.ControllerContext) controllerruntime.Runner {
	requests := d.Informers.Certificates().V1().PodCertificateRequests()
	q := controllerruntime.NewQueue("podcertcleaner", 1, func(ctx context.Context, key string) (time.Duration, error) {
		ns, name, _ := cache.SplitMetaNamespaceKey(key)
		r, err := requests.Lister().PodCertificateRequests(ns).Get(name)
		if err != nil {
			return 0, controllerruntime.IgnoreNotFound(err)
		}
		if left := PodRequestTimeLeft(r, d.Time()); left > 0 {
			return left, nil
		}
		return 0, controllerruntime.IgnoreNotFound(d.Client.CertificatesV1().PodCertificateRequests(ns).Delete(ctx,
			name, uidPrecondition(r.UID)))
	})
	q.WatchByKey(requests.Informer())
	return q
}

func uidPrecondition(uid types.UID) metav1.DeleteOptions {
	return metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(uid))}
}
