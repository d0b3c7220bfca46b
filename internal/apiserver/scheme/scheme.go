package scheme

import (
	"fmt"
	"reflect"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"

	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
)

// group is a served group version and what registers its types.
type group struct {
	gv  schema.GroupVersion
	add func(*runtime.Scheme) error
}

// groups are the group versions served, in priority order within a group.
func groups() []group {
	return []group{
		{corev1.SchemeGroupVersion, corev1.AddToScheme},
		{appsv1.SchemeGroupVersion, appsv1.AddToScheme},
		{batchv1.SchemeGroupVersion, batchv1.AddToScheme},
		{policyv1.SchemeGroupVersion, policyv1.AddToScheme},
		{discoveryv1.SchemeGroupVersion, discoveryv1.AddToScheme},
		{coordinationv1.SchemeGroupVersion, coordinationv1.AddToScheme},
		{schedulingv1.SchemeGroupVersion, schedulingv1.AddToScheme},
		{nodev1.SchemeGroupVersion, nodev1.AddToScheme},
		{storagev1.SchemeGroupVersion, storagev1.AddToScheme},
		{rbacv1.SchemeGroupVersion, rbacv1.AddToScheme},
		{authenticationv1.SchemeGroupVersion, authenticationv1.AddToScheme},
		{authorizationv1.SchemeGroupVersion, authorizationv1.AddToScheme},
		{admissionregistrationv1.SchemeGroupVersion, admissionregistrationv1.AddToScheme},
		{certificatesv1.SchemeGroupVersion, certificatesv1.AddToScheme},
		{eventsv1.SchemeGroupVersion, eventsv1.AddToScheme},
		{networkingv1.SchemeGroupVersion, networkingv1.AddToScheme},
		{autoscalingv2.SchemeGroupVersion, autoscalingv2.AddToScheme},
		{autoscalingv1.SchemeGroupVersion, autoscalingv1.AddToScheme},
		{resourcev1.SchemeGroupVersion, resourcev1.AddToScheme},
		{flowcontrolv1.SchemeGroupVersion, flowcontrolv1.AddToScheme},
	}
}

// metaPackage holds the types that every group has (ListOptions, WatchEvent, …) and that have hub types of their own.
var metaPackage = reflect.TypeFor[metav1.ListOptions]().PkgPath()

// Scheme is what a server knows about types.
type Scheme struct {
	*runtime.Scheme
	Codecs    serializer.CodecFactory
	Parameter runtime.ParameterCodec
	// Served holds the versioned types only, for naming OpenAPI models.
	Served *runtime.Scheme
}

// New makes the scheme for the rows given; more adds types of our own.
func New(kinds []kind.Kind, more ...func(*runtime.Scheme) error) (*Scheme, error) {
	s := &Scheme{Scheme: runtime.NewScheme(), Served: runtime.NewScheme()}
	for _, g := range groups() {
		if err := s.add(g); err != nil {
			return nil, fmt.Errorf("types of %s: %w", g.gv, err)
		}
	}
	for gv, versions := range priorities() {
		if err := s.SetVersionPriority(versions...); err != nil {
			return nil, fmt.Errorf("versions of %s: %w", gv, err)
		}
	}
	for _, add := range append([]func(*runtime.Scheme) error{addEvents, addQueries, addEviction, addOld}, more...) {
		if err := add(s.Scheme); err != nil {
			return nil, err
		}
	}
	for i := range kinds {
		if err := s.addRow(&kinds[i]); err != nil {
			return nil, fmt.Errorf("kind %s: %w", kinds[i].Kind, err)
		}
	}
	s.Codecs = serializer.NewCodecFactory(s.Scheme, serializer.WithSerializer(cbor.NewSerializerInfo))
	s.Parameter = runtime.NewParameterCodec(s.Scheme)
	return s, nil
}

// add registers a group's types under their version and, as their own hub, under the internal version.
func (s *Scheme) add(g group) error {
	if err := g.add(s.Scheme); err != nil {
		return err
	}
	if err := g.add(s.Served); err != nil {
		return err
	}
	one := runtime.NewScheme()
	if err := g.add(one); err != nil {
		return err
	}
	internal := schema.GroupVersion{Group: g.gv.Group, Version: runtime.APIVersionInternal}
	for name, t := range one.KnownTypes(g.gv) {
		if t.PkgPath() == metaPackage || hubIsElsewhere(g.gv, name) {
			continue
		}
		s.AddKnownTypeWithName(internal.WithKind(name), reflect.New(t).Interface().(runtime.Object))
	}
	return nil
}

// hubIsElsewhere says that a type's hub is another version's or group's type.
func hubIsElsewhere(gv schema.GroupVersion, name string) bool {
	switch gv {
	case eventsv1.SchemeGroupVersion:
		return true
	case autoscalingv1.SchemeGroupVersion:
		return name != "Scale"
	}
	return false
}

// priorities are the versions of each group, preferred first.
func priorities() map[string][]schema.GroupVersion {
	out := map[string][]schema.GroupVersion{}
	for _, g := range groups() {
		out[g.gv.Group] = append(out[g.gv.Group], g.gv)
	}
	return out
}

// addRow registers what a kind decides about decoding: defaults and selectable fields.
func (s *Scheme) addRow(k *kind.Kind) error {
	if k.Types.New == nil {
		return nil
	}
	if d := k.Rules.Default; d != nil && k.Types.Internal.Kind == "" {
		s.AddTypeDefaultingFunc(k.Types.New(), func(o any) { d(o.(runtime.Object)) })
	}
	gvk := schema.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: k.Kind}
	if k.Rules.Fields == nil || len(selectable(k)) == 0 {
		return nil
	}
	if gvk.GroupVersion() == eventsv1.SchemeGroupVersion {
		return s.AddFieldLabelConversionFunc(gvk, eventsV1Label)
	}
	return s.AddFieldLabelConversionFunc(gvk, fieldLabels(k))
}

// fieldLabels lets the selectable fields of a kind through and refuses others in upstream's words.
func fieldLabels(k *kind.Kind) runtime.FieldLabelConversionFunc {
	known := selectable(k)
	known["metadata.name"] = true
	known["metadata.namespace"] = k.Types.Namespaced || k.Resource == "nodes"
	name, job := k.Resource, k.Group == "batch"
	return func(label, value string) (string, string, error) {
		switch {
		case known[label]:
			return label, value, nil
		case label == "spec.host" && name == "pods":
			return "spec.nodeName", value, nil
		case job:
			return "", "", fmt.Errorf("field label %q not supported for %s", label, k.Kind)
		case k.Group == appsv1.GroupName:
			return "", "", fmt.Errorf("%q is not a known field selector: only %q, %q", label, "metadata.name", "metadata.namespace")
		}
		return "", "", fmt.Errorf("field label not supported: %s", label)
	}
}

// selectable are the fields of a kind that a request may name; "name" is an attribute of some kinds but never a label.
func selectable(k *kind.Kind) map[string]bool {
	out := map[string]bool{}
	for f := range k.Rules.Fields(k.Types.New()) {
		if f != "name" {
			out[f] = true
		}
	}
	return out
}
