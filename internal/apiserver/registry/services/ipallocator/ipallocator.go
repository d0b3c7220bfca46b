// Package ipallocator keeps the cluster IPs that Services hold as IPAddress objects in the store
// (upstream: pkg/registry/core/service/ipallocator).
//
// In: the stores of IPAddresses and ServiceCIDRs. Out: a services.IPAddressStorage, and the ranges
// that addresses are taken from. Which address a Service gets is the allocator's choice, in
// registry/services.
package ipallocator

import (
	"context"
	"errors"
	"net/netip"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/gantry-project/gantry/internal/apiserver/registry/services"
)

// Lookup finds the store of a kind; nil when it is not served.
type Lookup func(group, resource string) rest.StandardStorage

// Storage writes the cluster IPs that the allocator gives out down as IPAddress objects, so that
// every API server sees them. It implements services.IPAddressStorage; safe for concurrent use.
type Storage struct{ lookup Lookup }

// NewStorage returns a Storage over the stores of this server.
func NewStorage(find Lookup) Storage { return Storage{find} }

func (l Storage) store() rest.StandardStorage {
	return l.lookup(networkingv1.GroupName, "ipaddresses")
}

// Allocate implements services.IPAddressStorage.
func (l Storage) Allocate(ctx context.Context, a *networkingv1.IPAddress) error {
	_, err := l.store().Create(ctx, a.DeepCopy(), rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	have, err := l.store().Get(ctx, a.Name, &metav1.GetOptions{ResourceVersion: ""})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if e, ok := have.(*networkingv1.IPAddress); ok && err == nil && e.Spec.ParentRef != nil &&
		*e.Spec.ParentRef == *a.Spec.ParentRef {
		return nil // left by an earlier try to store this very Service
	}
	return services.ErrIPAllocated
}

// Release implements services.IPAddressStorage.
func (l Storage) Release(ctx context.Context, a *networkingv1.IPAddress) error {
	mine := func(_ context.Context, obj runtime.Object) error {
		if e, ok := obj.(*networkingv1.IPAddress); ok && e.Spec.ParentRef != nil &&
			*e.Spec.ParentRef == *a.Spec.ParentRef {
			return nil
		}
		return errors.New("the address belongs to somebody else by now")
	}
	_, _, err := l.store().Delete(ctx, a.Name, mine, &metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// Prefixes returns a function that lists the ranges of all ServiceCIDRs that are not being deleted:
// those that cluster IPs may be taken from.
func Prefixes(find Lookup) func(context.Context) ([]netip.Prefix, error) {
	return func(ctx context.Context) ([]netip.Prefix, error) {
		obj, err := find(networkingv1.GroupName, "servicecidrs").List(ctx,
			&metainternalversion.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return nil, err
		}
		var out []netip.Prefix
		for _, c := range obj.(*networkingv1.ServiceCIDRList).Items {
			if c.DeletionTimestamp == nil {
				out = append(out, services.Prefixes(&c)...)
			}
		}
		return out, nil
	}
}
