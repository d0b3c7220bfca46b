package apiserver

import (
	"context"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/gantry-project/gantry/internal/apiserver/registry/admissionregistration"
	"github.com/gantry-project/gantry/internal/apiserver/registry/apps"
	"github.com/gantry-project/gantry/internal/apiserver/registry/autoscaling"
	"github.com/gantry-project/gantry/internal/apiserver/registry/batch"
	"github.com/gantry-project/gantry/internal/apiserver/registry/certificates"
	"github.com/gantry-project/gantry/internal/apiserver/registry/coordination"
	"github.com/gantry-project/gantry/internal/apiserver/registry/core"
	"github.com/gantry-project/gantry/internal/apiserver/registry/discovery"
	"github.com/gantry-project/gantry/internal/apiserver/registry/flowcontrol"
	"github.com/gantry-project/gantry/internal/apiserver/registry/networking"
	"github.com/gantry-project/gantry/internal/apiserver/registry/node"
	"github.com/gantry-project/gantry/internal/apiserver/registry/nodes"
	"github.com/gantry-project/gantry/internal/apiserver/registry/pods"
	"github.com/gantry-project/gantry/internal/apiserver/registry/policy"
	"github.com/gantry-project/gantry/internal/apiserver/registry/rbac"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resource"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/scheduling"
	"github.com/gantry-project/gantry/internal/apiserver/registry/services"
	"github.com/gantry-project/gantry/internal/apiserver/registry/services/ipallocator"
	"github.com/gantry-project/gantry/internal/apiserver/registry/storage"
	"github.com/gantry-project/gantry/internal/apiserver/registry/storagemigration"
)

// storageLookup returns the store of another resource; nil if it is not served.
type storageLookup func(group, resource string) rest.StandardStorage

// newAllocator returns the allocator of cluster IPs and node ports for the configured ranges.
func newAllocator(c Config, find storageLookup) (*services.Allocator, error) {
	low, high := c.Services.NodePortLow, c.Services.NodePortHigh
	if low == 0 && high == 0 {
		low, high = 30000, 32767
	}
	cidrs := c.Services.CIDRs
	if len(cidrs) == 0 {
		cidrs = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}
	}
	a, err := services.New(cidrs, low, high, listServices(find))
	if err != nil {
		return nil, err
	}
	a.UseIPAddressStorage(ipallocator.NewStorage(ipallocator.Lookup(find)),
		ipallocator.Prefixes(ipallocator.Lookup(find)))
	return a, nil
}

// Kinds returns the served resources in the order in which discovery lists their groups. Of two of
// the same resource, the later counts. migrate is called when a StorageVersionMigration was
// created.
func Kinds(c Config, find storageLookup, allocator *services.Allocator, migrate func()) []resourcedef.Kind {
	var out []resourcedef.Kind
	for _, area := range [][]resourcedef.Kind{
		core.Kinds(), pods.Kinds(c.Kubelets), nodes.Kinds(c.Kubelets), services.Kinds(allocator, c.Kubelets),
		apps.Kinds(),
		batch.Kinds(),
		policy.Kinds(),
		discovery.Kinds(),
		coordination.Kinds(),
		scheduling.Kinds(),
		node.Kinds(),
		storage.Kinds(),
		networking.Kinds(),
		autoscaling.Kinds(),
		admissionregistration.Kinds(),
		rbac.Kinds(), certificates.Kinds(),
		resource.Kinds(namespaceLabels(find)), flowcontrol.Kinds(),
		storagemigration.Kinds(migrate),
		{core.EventsV1()},
	} {
		out = append(out, area...)
	}
	if c.Features.GenericWorkload {
		out = append(scheduling.WithGroups(out), scheduling.BetaKinds()...)
	}
	if c.Features.CSIVolumeHealth {
		storage.WithVolumeHealth(out)
	}
	if c.Features.NoHPAScaleToZero {
		autoscaling.WithoutScaleToZero(out)
	}
	if c.Features.CrossNamespaceVolumeDataSource {
		core.WithCrossNamespaceSources(out)
	}
	if c.Features.V136 {
		emulate136(out)
	}
	return out
}

// StandaloneKinds returns the served resources for a server that keeps its objects elsewhere than
// in etcd: with default options, and with find as the lookup of stores.
func StandaloneKinds(find func(group, resource string) rest.StandardStorage) ([]resourcedef.Kind, error) {
	allocator, err := newAllocator(Config{}, find)
	if err != nil {
		return nil, err
	}
	return Kinds(Config{}, find, allocator, func() {}), nil
}

// listServices returns a function that lists all stored Services, from which the allocator
// initializes itself.
func listServices(find storageLookup) func(context.Context) ([]corev1.Service, error) {
	return func(ctx context.Context) ([]corev1.Service, error) {
		obj, err := find("", "services").List(request.WithNamespace(ctx, ""), &metainternalversion.ListOptions{})
		if err != nil {
			return nil, err
		}
		return obj.(*corev1.ServiceList).Items, nil
	}
}

// namespaceLabels returns a function that reads a namespace's labels.
func namespaceLabels(find storageLookup) resource.NamespaceLabels {
	return func(ctx context.Context, namespace string) (map[string]string, error) {
		obj, err := find("", "namespaces").Get(ctx, namespace, &metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return obj.(*corev1.Namespace).Labels, nil
	}
}
