package scheme

import (
	"fmt"
	"reflect"
	"slices"

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
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/scheduling"
)

// servedGroup is a served group version and what registers its types.
type servedGroup struct {
	gv  schema.GroupVersion
	add func(*runtime.Scheme) error

	gated bool // a gate: known only when a row is of this version
}

// groups are the group versions served, in priority order within a group.
func groups() []servedGroup {
	return []servedGroup{
		{gv: corev1.SchemeGroupVersion, add: corev1.AddToScheme},
		{gv: appsv1.SchemeGroupVersion, add: appsv1.AddToScheme},
		{gv: batchv1.SchemeGroupVersion, add: batchv1.AddToScheme},
		{gv: policyv1.SchemeGroupVersion, add: policyv1.AddToScheme},
		{gv: discoveryv1.SchemeGroupVersion, add: discoveryv1.AddToScheme},
		{gv: coordinationv1.SchemeGroupVersion, add: coordinationv1.AddToScheme},
		{gv: schedulingv1.SchemeGroupVersion, add: schedulingv1.AddToScheme},
		{gv: nodev1.SchemeGroupVersion, add: nodev1.AddToScheme},
		{gv: storagev1.SchemeGroupVersion, add: storagev1.AddToScheme},
		{gv: rbacv1.SchemeGroupVersion, add: rbacv1.AddToScheme},
		{gv: authenticationv1.SchemeGroupVersion, add: authenticationv1.AddToScheme},
		{gv: authorizationv1.SchemeGroupVersion, add: authorizationv1.AddToScheme},
		{gv: admissionregistrationv1.SchemeGroupVersion, add: admissionregistrationv1.AddToScheme},
		{gv: certificatesv1.SchemeGroupVersion, add: certificatesv1.AddToScheme},
		{gv: eventsv1.SchemeGroupVersion, add: eventsv1.AddToScheme},
		{gv: networkingv1.SchemeGroupVersion, add: networkingv1.AddToScheme},
		{gv: autoscalingv2.SchemeGroupVersion, add: autoscalingv2.AddToScheme},
		{gv: autoscalingv1.SchemeGroupVersion, add: autoscalingv1.AddToScheme},
		{gv: resourcev1.SchemeGroupVersion, add: resourcev1.AddToScheme},
		{gv: flowcontrolv1.SchemeGroupVersion, add: flowcontrolv1.AddToScheme},
		{gv: storagemigrationv1.SchemeGroupVersion, add: storagemigrationv1.AddToScheme},
		{gv: schedulingv1beta1.SchemeGroupVersion, add: scheduling.AddBeta, gated: true},
	}
}

// groupsFor are the groups of the rows: those behind a gate only when there is a row.
func groupsFor(kinds []resourcedef.Kind) []servedGroup {
	return slices.DeleteFunc(groups(), func(g servedGroup) bool {
		return g.gated && !slices.ContainsFunc(kinds,
			func(k resourcedef.Kind) bool { return k.Group == g.gv.Group && k.Version == g.gv.Version })
	})
}

// metaPackage holds the types that every group has (ListOptions, WatchEvent, …) and that have hub
// types of their own.
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
func New(kinds []resourcedef.Kind, more ...func(*runtime.Scheme) error) (*Scheme, error) {
	s := &Scheme{Scheme: runtime.NewScheme(), Served: runtime.NewScheme()}
	served := groupsFor(kinds)
	for _, g := range served {
		if err := s.add(g); err != nil {
			return nil, fmt.Errorf("types of %s: %w", g.gv, err)
		}
	}
	for gv, versions := range versionPriorities(served) {
		if err := s.SetVersionPriority(versions...); err != nil {
			return nil, fmt.Errorf("versions of %s: %w", gv, err)
		}
	}
	for _, add := range append([]func(*runtime.Scheme) error{addEvents, addQueries, addEviction, addLegacyVersions},
		more...) {
		if err := add(s.Scheme); err != nil {
			return nil, err
		}
	}
	for i := range kinds {
		if err := s.addKind(&kinds[i]); err != nil {
			return nil, fmt.Errorf("kind %s: %w", kinds[i].Kind, err)
		}
	}
	s.Codecs = serializer.NewCodecFactory(s.Scheme)
	s.Parameter = runtime.NewParameterCodec(s.Scheme)
	return s, nil
}

// AddCBOR serves CBOR beside JSON, YAML and protobuf.
func (s *Scheme) AddCBOR() {
	s.Codecs = serializer.NewCodecFactory(s.Scheme, serializer.WithSerializer(cbor.NewSerializerInfo))
}

// add registers a group's types under their version and, as their own hub, under the internal
// version.
func (s *Scheme) add(g servedGroup) error {
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
		if t.PkgPath() == metaPackage || hasExternalHub(g.gv, name) {
			continue
		}
		s.AddKnownTypeWithName(internal.WithKind(name), reflect.New(t).Interface().(runtime.Object))
	}
	return nil
}

// hasExternalHub says that a type's hub is another version's or group's type.
func hasExternalHub(gv schema.GroupVersion, name string) bool {
	switch gv {
	case eventsv1.SchemeGroupVersion:
		return true
	case autoscalingv1.SchemeGroupVersion:
		return name != "Scale"
	}
	return false
}

// versionPriorities are the versions of each group, preferred first.
func versionPriorities(all []servedGroup) map[string][]schema.GroupVersion {
	out := map[string][]schema.GroupVersion{}
	for _, g := range all {
		out[g.gv.Group] = append(out[g.gv.Group], g.gv)
	}
	return out
}

// addKind registers what a kind decides about decoding: defaults and selectable fields.
func (s *Scheme) addKind(k *resourcedef.Kind) error {
	if k.Types.New == nil {
		return nil
	}
	if d := k.Rules.Default; d != nil && k.Types.Internal.Kind == "" {
		s.AddTypeDefaultingFunc(k.Types.New(), func(o any) { d(o.(runtime.Object)) })
	}
	gvk := schema.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: k.Kind}
	if k.Rules.Fields == nil || k.Group == appsv1.GroupName || len(selectableFields(k)) == 0 {
		return nil // name and namespace only: the library's own rule
	}
	if gvk.GroupVersion() == eventsv1.SchemeGroupVersion {
		return s.AddFieldLabelConversionFunc(gvk, eventsV1Label)
	}
	return s.AddFieldLabelConversionFunc(gvk, fieldLabels(k))
}

// fieldLabels lets the selectable fields of a kind through and refuses others in upstream's words.
func fieldLabels(k *resourcedef.Kind) runtime.FieldLabelConversionFunc {
	known := selectableFields(k)
	known["metadata.name"] = true
	// upstream's list for them leaves it out
	known["metadata.namespace"] = k.Types.Namespaced && k.Resource != "podcertificaterequests"
	refused := "field label not supported: %s"
	switch k.Resource {
	case "jobs":
		refused = "field label %q not supported for Job"
	case "resourceslices":
		refused = "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: %s"
	}
	return func(label, value string) (string, string, error) {
		switch {
		case known[label]:
			return label, value, nil
		case label == "spec.host" && k.Resource == "pods":
			return "spec.nodeName", value, nil
		}
		return "", "", fmt.Errorf(refused, label)
	}
}

// selectableFields are the fields of a kind that a request may name; "name" is an attribute of some
// kinds but never a label.
func selectableFields(k *resourcedef.Kind) map[string]bool {
	out := map[string]bool{}
	for f := range k.Rules.Fields(k.Types.New()) {
		if f != "name" {
			out[f] = true
		}
	}
	return out
}
