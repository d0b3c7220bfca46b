package disruption

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery/cached/memory"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
)

// scaleFinder finds the scale of Pods' controllers: in caches for known kinds, by the scale
// subresource for others.
type scaleFinder struct {
	sets         appslisters.ReplicaSetLister
	deployments  appslisters.DeploymentLister
	statefulSets appslisters.StatefulSetLister
	controllers  corelisters.ReplicationControllerLister
	mapper       *restmapper.DeferredDiscoveryRESTMapper
	client       scale.ScalesGetter
}

func newScaleFinder(d controllerruntime.ControllerContext) *scaleFinder {
	apps := d.Informers.Apps().V1()
	discovery := memory.NewMemCacheClient(d.Client.Discovery())
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(discovery)
	s := &scaleFinder{
		sets: apps.ReplicaSets().Lister(), deployments: apps.Deployments().Lister(),
		statefulSets: apps.StatefulSets().Lister(),
		controllers:  d.Informers.Core().V1().ReplicationControllers().Lister(), mapper: mapper,
		client: scale.New(d.Client.Discovery().RESTClient(), mapper, resourcePath,
			scale.NewDiscoveryScaleKindResolver(discovery)),
	}
	return s
}

// resourcePath returns the root of a group's API paths.
func resourcePath(kind schema.GroupVersionKind) string {
	if kind.Group == "" {
		return "/api"
	}
	return "/apis"
}

// expectedScales returns the scale of each Pod's controller, by Pod name.
func (s *scaleFinder) expectedScales(ctx context.Context, pods []*corev1.Pod) (map[string]Scale, error) {
	out, known := map[string]Scale{}, map[types.UID]Scale{}
	for _, p := range pods {
		owner := metav1.GetControllerOf(p)
		if owner == nil {
			continue
		}
		if _, ok := known[owner.UID]; !ok {
			found, err := s.find(ctx, p.Namespace, owner)
			if err != nil {
				return nil, err
			}
			if found == nil {
				return nil, fmt.Errorf("found no controllers for pod %q", p.Name)
			}
			known[owner.UID] = *found
		}
		out[p.Name] = known[owner.UID]
	}
	return out, nil
}

// find returns nil if the owner is gone or another object has its name.
func (s *scaleFinder) find(ctx context.Context, ns string, owner *metav1.OwnerReference) (*Scale, error) {
	gv, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil {
		return nil, err
	}
	switch (schema.GroupKind{Group: gv.Group, Kind: owner.Kind}) {
	case schema.GroupKind{Group: appsv1.GroupName, Kind: "ReplicaSet"}:
		rs, err := s.sets.ReplicaSets(ns).Get(owner.Name)
		if err != nil || rs.UID != owner.UID {
			return nil, controllerruntime.IgnoreNotFound(err)
		}
		if above := metav1.GetControllerOf(rs); above != nil && above.Kind == "Deployment" {
			d, err := s.deployments.Deployments(ns).Get(above.Name)
			if err != nil || d.UID != above.UID {
				return nil, controllerruntime.IgnoreNotFound(err)
			}
			return &Scale{string(d.UID), replicasOrOne(d.Spec.Replicas)}, nil
		}
		return &Scale{string(rs.UID), replicasOrOne(rs.Spec.Replicas)}, nil
	case schema.GroupKind{Group: appsv1.GroupName, Kind: "StatefulSet"}:
		set, err := s.statefulSets.StatefulSets(ns).Get(owner.Name)
		if err != nil || set.UID != owner.UID {
			return nil, controllerruntime.IgnoreNotFound(err)
		}
		return &Scale{string(set.UID), replicasOrOne(set.Spec.Replicas)}, nil
	case schema.GroupKind{Kind: "ReplicationController"}:
		rc, err := s.controllers.ReplicationControllers(ns).Get(owner.Name)
		if err != nil || rc.UID != owner.UID {
			return nil, controllerruntime.IgnoreNotFound(err)
		}
		return &Scale{string(rc.UID), replicasOrOne(rc.Spec.Replicas)}, nil
	}
	return s.fetchScale(ctx, ns, gv.WithKind(owner.Kind), owner)
}

func replicasOrOne(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

// fetchScale reads the scale subresource. A kind without one is an error that names it.
func (s *scaleFinder) fetchScale(ctx context.Context, ns string, kind schema.GroupVersionKind,
	owner *metav1.OwnerReference) (*Scale, error) {
	mapping, err := s.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if apimeta.IsNoMatchError(err) {
		s.mapper.Reset() // the kind may have been added since
		mapping, err = s.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	}
	if err != nil {
		return nil, err
	}
	gr := mapping.Resource.GroupResource()
	got, err := s.client.Scales(ns).Get(ctx, gr, owner.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("%s does not implement the scale subresource", gr)
	case err != nil:
		return nil, err
	case got.UID != owner.UID:
		return nil, nil
	}
	return &Scale{string(got.UID), got.Spec.Replicas}, nil
}
