package pods

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	storeerr "k8s.io/apiserver/pkg/storage/errors"
	"k8s.io/apiserver/pkg/util/dryrun"
)

// bindingREST is pods/binding: it gives a Pod its node, once.
type bindingREST struct {
	noDestroy
	pods   *podStore
	lookup func(group, resource string) rest.StandardStorage
}

var (
	_ rest.NamedCreater                   = &bindingREST{}
	_ rest.SubresourceObjectMetaPreserver = &bindingREST{}
)

func (r *bindingREST) New() runtime.Object { return &v1.Binding{} }

// PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate keeps UID and resource version of the
// request: they are preconditions on the Pod.
func (r *bindingREST) PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate() bool { return true }

// Create binds the named Pod.
func (r *bindingREST) Create(ctx context.Context, name string, obj runtime.Object, validate rest.ValidateObjectFunc,
	options *metav1.CreateOptions) (runtime.Object, error) {
	b, ok := obj.(*v1.Binding)
	if !ok {
		return nil, errors.NewBadRequest(fmt.Sprintf("not a Binding object: %#v", obj))
	}
	if name != b.Name {
		return nil, errors.NewBadRequest("name in URL does not match name in Binding object")
	}
	if errs := validateBinding(b); len(errs) != 0 {
		return nil, errs.ToAggregate()
	}
	if validate != nil {
		if err := validate(ctx, b.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	if err := r.topology(ctx, b); err != nil {
		return nil, err
	}
	if err := r.pods.bind(ctx, b, dryrun.IsDryRun(options.DryRun)); err != nil {
		return nil, err
	}
	return &metav1.Status{Status: metav1.StatusSuccess}, nil
}

// topology puts the node's zone and region on the Pod, so that its containers can read them. A node
// that is not there has none.
func (r *bindingREST) topology(ctx context.Context, b *v1.Binding) error {
	store := r.lookup("", "nodes")
	if store == nil {
		return nil
	}
	o, err := store.Get(request.WithNamespace(ctx, metav1.NamespaceNone), b.Target.Name, &metav1.GetOptions{})
	if errors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	n, ok := o.(*v1.Node)
	if !ok {
		return fmt.Errorf("unexpected object type %T in the store of nodes", o)
	}
	for _, k := range []string{v1.LabelTopologyZone, v1.LabelTopologyRegion} {
		if v, ok := n.Labels[k]; ok {
			b.Labels = merged(b.Labels, map[string]string{k: v})
		}
	}
	return nil
}

func validateBinding(b *v1.Binding) field.ErrorList {
	var errs field.ErrorList
	target := field.NewPath("target")
	if b.Target.Kind != "" && b.Target.Kind != "Node" {
		errs = append(errs, field.NotSupported(target.Child("kind"), b.Target.Kind, []string{"Node", "<empty>"}))
	}
	if b.Target.Name == "" {
		errs = append(errs, field.Required(target.Child("name"), ""))
	}
	return errs
}

// bind writes the node's name in one transaction, with the binding's annotations and labels.
func (s *podStore) bind(ctx context.Context, b *v1.Binding, dryRun bool) error {
	key, err := s.KeyFunc(ctx, b.Name)
	if err != nil {
		return err
	}
	var pre *storage.Preconditions
	if b.UID != "" || b.ResourceVersion != "" {
		pre = &storage.Preconditions{}
		if b.UID != "" {
			pre.UID = &b.UID
		}
		if b.ResourceVersion != "" {
			pre.ResourceVersion = &b.ResourceVersion
		}
	}
	try := storage.SimpleUpdate(func(o runtime.Object) (runtime.Object, error) {
		p, ok := o.(*v1.Pod)
		if !ok {
			return nil, fmt.Errorf("unexpected object: %#v", o)
		}
		if err := bindPod(p, b, metav1.Now()); err != nil {
			return nil, err
		}
		return p, nil
	})
	err = s.Storage.GuaranteedUpdate(ctx, key, &v1.Pod{}, false, pre, try, dryRun, nil)
	if err == nil {
		return nil
	}
	gr := schema.GroupResource{Resource: "pods"}
	err = storeerr.InterpretUpdateError(storeerr.InterpretGetError(err, gr, b.Name), gr, b.Name)
	if _, ok := err.(errors.APIStatus); !ok {
		err = errors.NewConflict(schema.GroupResource{Resource: "pods/binding"}, b.Name, err)
	}
	return err
}

// bindPod decides one binding: refused for a Pod that is ending, placed already, or held back by
// gates.
func bindPod(p *v1.Pod, b *v1.Binding, now metav1.Time) error {
	switch {
	case p.DeletionTimestamp != nil:
		return fmt.Errorf("pod %s is being deleted, cannot be assigned to a host", p.Name)
	case p.Spec.NodeName != "":
		return fmt.Errorf("pod %v is already assigned to node %q", p.Name, p.Spec.NodeName)
	case len(p.Spec.SchedulingGates) != 0:
		return fmt.Errorf("pod %v has non-empty .spec.schedulingGates", p.Name)
	}
	p.Spec.NodeName = b.Target.Name
	p.Status.NominatedNodeName = "" // it has come true, or is overtaken (KEP-5278)
	p.Annotations = merged(p.Annotations, b.Annotations)
	p.Labels = merged(p.Labels, b.Labels)
	setCondition(&p.Status, v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionTrue}, now)
	return nil
}

func merged(m, add map[string]string) map[string]string {
	if m == nil && len(add) > 0 {
		m = map[string]string{}
	}
	for k, v := range add {
		m[k] = v
	}
	return m
}

// setCondition puts one condition; the transition time moves only when the status changes.
func setCondition(s *v1.PodStatus, c v1.PodCondition, now metav1.Time) {
	c.LastTransitionTime = now
	for i := range s.Conditions {
		if s.Conditions[i].Type != c.Type {
			continue
		}
		if s.Conditions[i].Status == c.Status {
			c.LastTransitionTime = s.Conditions[i].LastTransitionTime
		}
		c.LastProbeTime = s.Conditions[i].LastProbeTime
		s.Conditions[i] = c
		return
	}
	s.Conditions = append(s.Conditions, c)
}
