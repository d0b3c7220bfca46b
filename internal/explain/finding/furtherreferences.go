package finding

import (
	"fmt"
	"net/url"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// furtherReferences are those of kinds that few objects have.
func furtherReferences(o metav1.Object) []Reference {
	switch x := o.(type) {
	case *corev1.PersistentVolume:
		return persistentReferences(x)
	case *corev1.Secret:
		if n := x.Annotations[corev1.ServiceAccountNameKey]; n != "" {
			return []Reference{{Field: "metadata.annotations[" + corev1.ServiceAccountNameKey + "]",
				To: Object{"ServiceAccount", x.Namespace, n}}}
		}
	case *corev1.ResourceQuota:
		return quotaReferences(x)
	case *storagev1.StorageClass:
		return classReferences(x)
	case *storagev1.VolumeAttributesClass:
		return []Reference{{Field: "driverName", To: Object{"CSIDriver", "", x.DriverName}, Weak: true,
			Stage: StageVolume}}
	case *networkingv1.IngressClass:
		return ingressClassReferences(x)
	case *discoveryv1.EndpointSlice:
		return endpointReferences(x)
	case *schedulingv1beta1.PodGroup:
		return groupReferences(x)
	case *resourcev1.ResourceClaim:
		return deviceReferences(x.Spec.Devices.Requests, "spec.devices.requests")
	case *resourcev1.ResourceClaimTemplate:
		return deviceReferences(x.Spec.Spec.Devices.Requests, "spec.spec.devices.requests")
	case *storagev1.VolumeAttachment:
		out := []Reference{{Field: "spec.attacher", To: Object{"CSIDriver", "", x.Spec.Attacher}},
			{Field: "spec.nodeName", To: Object{"Node", "", x.Spec.NodeName}}}
		if n := x.Spec.Source.PersistentVolumeName; n != nil {
			out = append(out, Reference{Field: "spec.source.persistentVolumeName", To: Object{"PersistentVolume", "",
				*n}})
		}
		return out
	case *admissionv1.ValidatingAdmissionPolicyBinding:
		return []Reference{{Field: "spec.policyName", To: Object{"ValidatingAdmissionPolicy", "", x.Spec.PolicyName}}}
	case *admissionv1.MutatingAdmissionPolicyBinding:
		return []Reference{{Field: "spec.policyName", To: Object{"MutatingAdmissionPolicy", "", x.Spec.PolicyName}}}
	case *admissionv1.ValidatingWebhookConfiguration, *admissionv1.MutatingWebhookConfiguration:
		var out []Reference
		for i, w := range webhooksOf(o) {
			at := fmt.Sprintf("webhooks[%d].clientConfig", i)
			if s := w.config.Service; s != nil {
				out = append(out, Reference{Field: at + ".service", To: Object{"Service", s.Namespace, s.Name},
					Optional: true}) // a rule of its own says so
			} else if to, ok := serviceOfURL(w.config.URL); ok {
				out = append(out, Reference{Field: at + ".url", To: to})
			}
		}
		return out
	case *flowcontrolv1.FlowSchema:
		return flowReferences(x)
	case *corev1.ReplicationController:
		if x.Spec.Template != nil {
			return podReferences(&x.Spec.Template.Spec, x.Namespace, "spec.template.spec")
		}
	case *corev1.PodTemplate:
		return optionalReferences(podReferences(&x.Template.Spec, x.Namespace, "template.spec"))
	case *storagev1.CSIStorageCapacity:
		return []Reference{{Field: "storageClassName", To: Object{"StorageClass", "", x.StorageClassName}, Weak: true,
			Stage: StageVolume}}
	case *networkingv1.IPAddress:
		if r := x.Spec.ParentRef; r != nil && r.Group == "" && r.Resource == "services" {
			return []Reference{{Field: "spec.parentRef.name", To: Object{"Service", r.Namespace, r.Name}, Weak: true,
				Stage: StageTraffic}}
		}
	case *unstructured.Unstructured:
		if custom(x) {
			return customReferences(x)
		}
		return namedServices(x)
	}
	return nil
}

// serviceOfURL is the Service that a URL's host names.
func serviceOfURL(raw *string) (Object, bool) {
	if raw == nil {
		return Object{}, false
	}
	u, err := url.Parse(*raw)
	if err != nil {
		return Object{}, false
	}
	parts := strings.Split(u.Hostname(), ".")
	if len(parts) < 3 || parts[2] != "svc" {
		return Object{}, false
	}
	return Object{"Service", parts[1], parts[0]}, true
}

// namedServices are the Services that an APIService or a CustomResourceDefinition names.
func namedServices(u *unstructured.Unstructured) []Reference {
	at := map[string][]string{"APIService": {"spec", "service"},
		"CustomResourceDefinition": {"spec", "conversion", "webhook", "clientConfig", "service"}}[u.GetKind()]
	if at == nil {
		return nil
	}
	s, ok, err := unstructured.NestedStringMap(u.Object, at...)
	if m, isMap, _ := unstructured.NestedMap(u.Object, at...); err != nil && isMap { // it has a port, a number
		s, ok = map[string]string{"name": fmt.Sprint(m["name"]), "namespace": fmt.Sprint(m["namespace"])}, true
	}
	if !ok {
		return nil
	}
	return []Reference{{Field: strings.Join(at, ".") + ".name", To: Object{"Service", s["namespace"], s["name"]}}}
}

func quotaReferences(q *corev1.ResourceQuota) []Reference {
	var out []Reference
	if q.Spec.ScopeSelector == nil {
		return nil
	}
	for i, e := range q.Spec.ScopeSelector.MatchExpressions {
		if e.ScopeName != corev1.ResourceQuotaScopePriorityClass || e.Operator != corev1.ScopeSelectorOpIn {
			continue
		}
		for j, v := range e.Values {
			out = append(out, Reference{Field: fmt.Sprintf("spec.scopeSelector.matchExpressions[%d].values[%d]", i, j),
				To: Object{"PriorityClass", "", v}, Weak: true})
		}
	}
	return out
}

func deviceReferences(list []resourcev1.DeviceRequest, at string) []Reference {
	var out []Reference
	for i, r := range list {
		if r.Exactly != nil {
			out = append(out, Reference{Field: fmt.Sprintf("%s[%d].exactly.deviceClassName", at, i),
				To: Object{"DeviceClass", "", r.Exactly.DeviceClassName}})
		}
		for j, f := range r.FirstAvailable {
			out = append(out, Reference{Field: fmt.Sprintf("%s[%d].firstAvailable[%d].deviceClassName", at, i, j),
				To: Object{"DeviceClass", "", f.DeviceClassName}, Weak: len(r.FirstAvailable) > 1})
		}
	}
	return out
}

// secretTypes are the types of Secrets that a reference can use, by the end of its field.
var secretTypes = []struct {
	field string
	types []corev1.SecretType
}{
	{"imagePullSecrets", []corev1.SecretType{corev1.SecretTypeDockerConfigJson, corev1.SecretTypeDockercfg}},
	{"spec.tls[", []corev1.SecretType{corev1.SecretTypeTLS}},
}

// wrongType finds a Secret of a type that whoever names it cannot use.
func wrongType(f *Finding, r Reference, o metav1.Object) bool {
	s, ok := o.(*corev1.Secret)
	if !ok {
		return false
	}
	for _, row := range secretTypes {
		if !strings.Contains(r.Field, row.field) {
			continue
		}
		for _, t := range row.types {
			if s.Type == t {
				return false
			}
		}
		if _, cert := s.Data[corev1.TLSCertKey]; cert && row.types[0] == corev1.SecretTypeTLS {
			return false // it has what is needed
		}
		f.Code, f.Severity, f.Want = "SecretTypeWrong", Threat, string(row.types[0])
		f.Numbers = map[string]string{"type": string(s.Type)}
		f.Message = fmt.Sprintf("%s %s names Secret %s in %s, which is of type %s; only %s is of use there.",
			f.Object.Kind, f.Object.Name, s.Name, r.Field, s.Type, row.types[0])
		f.Remedies = []Remedy{{Say: fmt.Sprintf("make the Secret anew with type %s: a type cannot be changed",
			row.types[0])}}
		return true
	}
	return false
}
