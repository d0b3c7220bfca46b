package fork

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gantry-project/gantry/internal/apiserver"
	"github.com/gantry-project/gantry/internal/node"
	"github.com/gantry-project/gantry/internal/simulate/memapi"
	"github.com/gantry-project/gantry/internal/simulate/memstore"
)

// leases is the namespace of the nodes' leases.
const leases = corev1.NamespaceNodeLease

// heartbeatPeriod is how often a kubelet renews its node's lease.
const heartbeatPeriod = 10 * time.Second

// loadOrder says which kinds must be there before others are created.
var loadOrder = []string{"Namespace", "PriorityClass", "StorageClass", "RuntimeClass", "ServiceAccount", "LimitRange",
	"Node", "PersistentVolume", "PersistentVolumeClaim"}

// load takes the objects in: those that come from a cluster as they are, those of manifests as a
// client would create them.
func (c *Cluster) load(ctx context.Context, objects []runtime.Object) error {
	var created []runtime.Object
	for _, o := range objects {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		m, err := meta.Accessor(o)
		if err != nil {
			return fmt.Errorf("an object of type %T has no metadata: %w", o, err)
		}
		if n, ok := o.(*corev1.Node); ok {
			completeNode(n, c.clock)
		} else if m.GetUID() == "" {
			created = append(created, o)
			continue
		}
		if err := c.api.Insert(o); err != nil {
			return err
		}
	}
	if err := c.loadMissing(objects); err != nil {
		return err
	}
	c.deliver(ctx)
	slices.SortStableFunc(created, func(a, b runtime.Object) int { return c.place(a) - c.place(b) })
	for _, o := range created {
		if err := c.Create(ctx, o); err != nil {
			return err
		}
		c.deliver(ctx)
	}
	return nil
}

func (c *Cluster) place(o runtime.Object) int {
	gvk, err := c.api.GVKOf(o)
	if i := slices.Index(loadOrder, gvk.Kind); err == nil && i >= 0 {
		return i
	}
	return len(loadOrder)
}

// loadMissing adds what every cluster has and nobody writes into a manifest: namespaces with their
// ServiceAccounts, the system's PriorityClasses, leases of nodes; and what could not be read though
// others name it.
func (c *Cluster) loadMissing(objects []runtime.Object) error {
	there := map[string]bool{}
	namespaces := map[string]bool{corev1.NamespaceDefault: true, metav1.NamespaceSystem: true, leases: true}
	var nodes []*corev1.Node
	for _, o := range objects {
		m, err := meta.Accessor(o)
		if err != nil {
			continue
		}
		if ns := m.GetNamespace(); ns != "" {
			namespaces[ns] = true
		}
		switch o := o.(type) {
		case *corev1.Node:
			nodes = append(nodes, o)
		case *corev1.Namespace:
			namespaces[o.Name] = true
		}
		there[keyOf(o)] = true
	}
	var missing []runtime.Object
	for ns := range namespaces {
		missing = append(missing, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns,
			Labels: map[string]string{corev1.LabelMetadataName: ns}},
			Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}},
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "default"}})
	}
	for _, class := range apiserver.SystemPriorityClasses() {
		missing = append(missing, class)
	}
	for _, n := range nodes {
		missing = append(missing, lease(n.Name, c.clock))
		if !node.IsReady(n) {
			c.kubelets.Lose(n.Name)
		}
	}
	named, notes := namedByOthers(objects)
	c.notes = append(c.notes, notes...)
	missing = append(missing, named...)
	sortBy(missing, keyOf)
	for _, o := range missing {
		if key := keyOf(o); !there[key] {
			there[key] = true // what is missing may be named by others, too
			if err := c.api.Insert(o); err != nil {
				return err
			}
		}
	}
	return nil
}

func nameOf(o runtime.Object) string {
	m, err := meta.Accessor(o)
	if err != nil {
		return ""
	}
	return m.GetNamespace() + "/" + m.GetName()
}

// completeNode makes a node of a manifest one that could run Pods: ready, with all of its capacity
// allocatable and volumes attached by the controller. One that says so itself stays as it is.
func completeNode(n *corev1.Node, now time.Time) {
	if n.Status.Allocatable == nil {
		n.Status.Allocatable = n.Status.Capacity.DeepCopy()
	}
	if _, ok := n.Status.Allocatable[corev1.ResourcePods]; !ok && n.Status.Allocatable != nil {
		n.Status.Allocatable[corev1.ResourcePods] = defaultPods.DeepCopy()
	}
	if n.Labels[corev1.LabelHostname] == "" {
		metav1.SetMetaDataLabel(&n.ObjectMeta, corev1.LabelHostname, n.Name)
	}
	if node.ReadyCondition(n) != nil {
		return
	}
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, managedAttaching, "true")
	n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeReady,
		Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: metav1.NewTime(now),
		LastTransitionTime: metav1.NewTime(now)})
}

func lease(node string, now time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: leases, Name: node},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &node, RenewTime: &metav1.MicroTime{Time: now}}}
}

// heartbeat renews the leases of all nodes that answer, and asks to be called again.
func (c *Cluster) heartbeat(context.Context) {
	prefix := memapi.Prefix(schema.GroupResource{Group: coordinationv1.GroupName, Resource: "leases"})
	for _, o := range c.store.Objects(prefix) {
		old := o.(*coordinationv1.Lease)
		if old.Namespace != leases || c.kubelets.Lost(old.Name) {
			continue
		}
		l := old.DeepCopy()
		l.Spec.RenewTime = &metav1.MicroTime{Time: c.clock}
		c.store.Replace(prefix, prefix+"/"+leases+"/"+l.Name, l)
	}
	c.At(c.clock.Add(heartbeatPeriod), c.heartbeat)
}

// noteChange remembers when something other than a lease changed.
func (c *Cluster) noteChange(change memstore.Change) {
	_, isLease := change.New.(*coordinationv1.Lease)
	if !isLease {
		c.changedAt = c.clock
	}
}

// Create creates an object as a client would: admission may change or refuse it.
func (c *Cluster) Create(ctx context.Context, o runtime.Object) error {
	gvk, err := c.api.GVKOf(o)
	if err != nil {
		return err
	}
	k, ok := c.api.KindOf(gvk)
	if !ok {
		return fmt.Errorf("kind %s is not served", gvk)
	}
	m, err := meta.Accessor(o)
	if err != nil {
		return err
	}
	if k.Types.Namespaced && m.GetNamespace() == "" {
		m.SetNamespace(corev1.NamespaceDefault)
	}
	o.GetObjectKind().SetGroupVersionKind(gvk)
	raw, err := json.Marshal(o)
	if err != nil {
		return err
	}
	err = c.Client().Discovery().RESTClient().Post().AbsPath(Path(gvk.GroupVersion(), k.Resource, m.GetNamespace())).
		SetHeader("Content-Type", runtime.ContentTypeJSON).Body(raw).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("%s %s: %w", k.Kind, m.GetName(), err)
	}
	return nil
}

// Path is the path of a resource in the API; namespace is empty for resources without.
func Path(gv schema.GroupVersion, resource, namespace string) string {
	path := "/apis/" + gv.String()
	if gv.Group == "" {
		path = "/api/" + gv.Version
	}
	if namespace != "" {
		path += "/namespaces/" + namespace
	}
	return path + "/" + resource
}

// defaultPods is how many Pods a node runs that does not say.
var defaultPods = resource.MustParse("110")

// Served returns an object's kind, the resource under which the API has it, and whether its objects
// lie in namespaces.
func (c *Cluster) Served(o runtime.Object) (gvk schema.GroupVersionKind, resource string, namespaced bool) {
	gvk, err := c.api.GVKOf(o)
	if err != nil {
		return gvk, "", false
	}
	k, _ := c.api.KindOf(gvk)
	return gvk, k.Resource, k.Types.Namespaced
}
