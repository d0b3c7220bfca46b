package podspec

import (
	"fmt"
	"math"

	v1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

// ValidatePodTemplateSpec validates a defaulted Pod template at path.
func ValidatePodTemplateSpec(t *v1.PodTemplateSpec, path *field.Path) field.ErrorList {
	var f typed.Errors
	f.Add(metavalidation.ValidateLabels(t.Labels, path.Child("labels"))...)
	f.Add(apivalidation.ValidateAnnotations(t.Annotations, path.Child("annotations"))...)
	f.Add(ValidateAnnotations(t.Annotations, &t.Spec, path.Child("annotations"))...)
	f.Add((&validator{spec: &t.Spec, template: true}).podSpec(path.Child("spec"))...)
	f.Add(ValidateAnnotationConflicts(t.Annotations, &t.Spec, path.Child("spec"))...)
	if len(t.Spec.EphemeralContainers) > 0 {
		f.Forbidden(path.Child("spec", "ephemeralContainers"), "ephemeral containers not allowed in pod template")
	}
	return f.List()
}

// validator validates one spec: it collects the errors and has what checks of one part need to know
// of others. Its methods append errors; each takes the path of what it validates.
type validator struct {
	typed.Errors
	spec     *v1.PodSpec
	template bool   // the spec is a template's: fields that only DefaultPod sets may be unset
	pod      string // metadata.name; empty for templates
	vols     map[string]*v1.VolumeSource
	claims   sets.Set[string]
}

// ValidatePodSpec validates the defaulted spec of a Pod with that metadata.name.
func ValidatePodSpec(s *v1.PodSpec, pod string, path *field.Path) field.ErrorList {
	return (&validator{spec: s, pod: pod}).podSpec(path)
}

// podSpec validates what Pods and templates have in common and returns all errors.
func (j *validator) podSpec(path *field.Path) field.ErrorList {
	s := j.spec
	j.vols, j.claims = map[string]*v1.VolumeSource{}, sets.New[string]()
	for i := range s.ResourceClaims {
		j.claims.Insert(s.ResourceClaims[i].Name)
	}
	j.volumes(path.Child("volumes"))
	j.resourceClaims(path.Child("resourceClaims"))
	j.containers(path.Child("containers"))
	j.initContainers(path.Child("initContainers"))
	j.ephemeralContainers(path.Child("ephemeralContainers"))
	j.podResources(path)
	j.hostNetwork(path)
	typed.RequiredOneOf(&j.Errors, path.Child("restartPolicy"), s.RestartPolicy, v1.RestartPolicyAlways,
		v1.RestartPolicyOnFailure, v1.RestartPolicyNever)
	typed.RequiredOneOf(&j.Errors, path.Child("dnsPolicy"), s.DNSPolicy, v1.DNSClusterFirstWithHostNet,
		v1.DNSClusterFirst, v1.DNSDefault, v1.DNSNone)
	j.Add(metavalidation.ValidateLabels(s.NodeSelector, path.Child("nodeSelector"))...)
	j.podSecurity(path)
	j.shareProcessNamespace(path.Child("shareProcessNamespace"))
	j.affinity(path.Child("affinity"))
	j.dns(path.Child("dnsConfig"))
	j.schedulingGates(path)
	j.topologySpreadConstraints(path.Child("topologySpreadConstraints"))
	j.hostProcess(path)
	j.hostUsers(path)
	j.hostnameOverride(path.Child("hostnameOverride"))
	j.names(path)
	if s.Overhead != nil {
		j.requirements(v1.ResourceRequirements{Limits: s.Overhead}, path.Child("overhead"))
	}
	j.os(path)
	j.fileVolumes(path)
	return j.List()
}

// names validates the scalar fields of a spec.
func (j *validator) names(path *field.Path) {
	s := j.spec
	if s.ServiceAccountName != "" {
		j.DNSSubdomain(path.Child("serviceAccountName"), s.ServiceAccountName)
	}
	if s.NodeName != "" {
		j.DNSSubdomain(path.Child("nodeName"), s.NodeName)
	}
	if d := s.ActiveDeadlineSeconds; d != nil && (*d < 1 || *d > math.MaxInt32) {
		j.Invalid(path.Child("activeDeadlineSeconds"), *d, validation.InclusiveRangeError(1, math.MaxInt32))
	}
	if s.Hostname != "" {
		j.DNSLabel(path.Child("hostname"), s.Hostname)
	}
	if s.Subdomain != "" {
		j.DNSLabel(path.Child("subdomain"), s.Subdomain)
	}
	j.tolerations(s.Tolerations, path.Child("tolerations"))
	j.hostAliases(path.Child("hostAliases"))
	if s.PriorityClassName != "" {
		j.DNSSubdomain(path.Child("priorityClassName"), s.PriorityClassName)
	}
	if s.RuntimeClassName != nil {
		j.DNSSubdomain(path.Child("runtimeClassName"), *s.RuntimeClassName)
	}
	if p := s.PreemptionPolicy; p != nil {
		typed.RequiredOneOf(&j.Errors, path.Child("preemptionPolicy"), *p, v1.PreemptLowerPriority, v1.PreemptNever)
	}
}

// hostnameOverride validates spec.hostnameOverride.
func (j *validator) hostnameOverride(path *field.Path) {
	if j.spec.HostnameOverride == nil {
		return
	}
	const longest = 64
	if s := j.spec; s.SetHostnameAsFQDN != nil && *s.SetHostnameAsFQDN {
		j.Forbidden(path, "may not be specified when setHostnameAsFQDN is true")
	}
	if j.spec.HostNetwork {
		j.Forbidden(path, "may not be specified when hostNetwork is true")
	}
	name := *j.spec.HostnameOverride
	if len(name) > longest {
		j.Add(field.TooLong(path, name, longest))
	}
	j.DNSSubdomain(path, name)
}

// resourceClaims validates spec.resourceClaims.
func (j *validator) resourceClaims(path *field.Path) {
	seen := sets.New[string]()
	for i := range j.spec.ResourceClaims {
		c, at := &j.spec.ResourceClaims[i], path.Index(i)
		switch {
		case c.Name == "":
			j.Required(at.Child("name"), "")
		case seen.Has(c.Name):
			j.Add(field.Duplicate(at.Child("name"), c.Name))
		default:
			j.DNSLabel(at.Child("name"), c.Name)
			seen.Insert(c.Name)
		}
		if c.ResourceClaimName != nil && c.ResourceClaimTemplateName != nil {
			j.Invalid(at, typed.GoFields(c),
				"at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified")
		}
		if c.ResourceClaimName == nil && c.ResourceClaimTemplateName == nil {
			j.Invalid(at, typed.GoFields(c), "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
		}
		if c.ResourceClaimName != nil {
			j.DNSSubdomain(at.Child("resourceClaimName"), *c.ResourceClaimName)
		}
		if c.ResourceClaimTemplateName != nil {
			j.DNSSubdomain(at.Child("resourceClaimTemplateName"), *c.ResourceClaimTemplateName)
		}
		if j.pod != "" && c.ResourceClaimTemplateName != nil {
			if name := j.pod + "-" + c.Name; len(validation.IsDNS1123Subdomain(name)) > 0 {
				j.InvalidEach(at.Child("name"), c.Name, withPrefix(fmt.Sprintf("final ResourceClaim name %q: ", name),
					validation.IsDNS1123Subdomain(name)))
			}
		}
	}
}

func withPrefix(p string, list []string) []string {
	out := make([]string, len(list))
	for i := range list {
		out[i] = p + list[i]
	}
	return out
}
