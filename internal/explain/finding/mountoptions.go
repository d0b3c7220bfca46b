package finding

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// optionWords are those by which kubelets, drivers, mount(8) and the kernel refuse a mount option.
var optionWords = regexp.MustCompile(`(?i)mount ?options?|bad option|` +
	`(?:unknown|invalid|unrecogni[sz]ed|unsupported|illegal|bad) (?:mount )?(?:option|parameter|flag)|` +
	`(?:option|parameter) \S+ (?:is )?(?:unknown|invalid|not (?:recogni[sz]ed|supported))`)

// OptionsOf are the mount options of a PersistentVolume, and the field that has them.
func OptionsOf(v *corev1.PersistentVolume) (options []string, field string) {
	if text, ok := v.Annotations[corev1.MountOptionAnnotation]; ok {
		return slices.DeleteFunc(strings.Split(text, ","), func(s string) bool { return s == "" }),
			"metadata.annotations[" + corev1.MountOptionAnnotation + "]"
	}
	return v.Spec.MountOptions, "spec.mountOptions"
}

// RefusedOption is the option that words refuse, by its index: -1 where they refuse options and
// name none. ok is false where the words are about something else.
func RefusedOption(options []string, words string) (i int, ok bool) {
	if len(options) == 0 || !optionWords.MatchString(words) {
		return -1, false
	}
	for i, o := range options {
		name, _, _ := strings.Cut(o, "=")
		for _, w := range []string{o, name} {
			quoted := regexp.MustCompile(`(?i)(?:^|[^\w-])` + regexp.QuoteMeta(w) + `(?:$|[^\w-])`)
			// what precedes is the call, which has all of them
			if said := words[strings.LastIndex(words, "Output:")+1:]; quoted.MatchString(said) {
				return i, true
			}
		}
	}
	if len(options) == 1 {
		return 0, true
	}
	return -1, true
}

// WithoutOption are remedies that take an option out of a PersistentVolume, or all where i is -1.
func WithoutOption(v *corev1.PersistentVolume, i int) []Remedy {
	o := Object{"PersistentVolume", "", v.Name}
	path, what := "/spec/mountOptions", "the mount options"
	if options, field := OptionsOf(v); field != "spec.mountOptions" {
		path = "/metadata/annotations/" + strings.ReplaceAll(corev1.MountOptionAnnotation, "/", "~1")
	} else if i >= 0 && len(options) > 1 {
		path, what = fmt.Sprintf("/spec/mountOptions/%d", i), "option "+options[i]
	}
	return []Remedy{{Say: fmt.Sprintf("take %s out of PersistentVolume %s: they can be changed, its data stay", what,
		v.Name), Run: []string{kubectl(o, "patch", fmt.Sprintf(`--type=json -p '[{"op":"remove","path":"%s"}]'`,
		path))}}}
}

// optionsUnserved finds volumes that no Pod can use as their type takes no mount options, and
// claims
// for which a class's driver refuses the options that it has.
func optionsUnserved(c *Cluster, o metav1.Object, self Object) []Finding {
	switch x := o.(type) {
	case *corev1.PersistentVolume:
		options, field := OptionsOf(x)
		if x.Spec.HostPath == nil || len(options) == 0 {
			return nil
		}
		return []Finding{{Code: "MountOptionRefused", Severity: Threat, Stage: StageVolume, Object: self, Field: field,
			Value: strings.Join(options, ","), Message: fmt.Sprintf("PersistentVolume %s of type hostPath has mount "+
				"options (%s: %s), and such a volume is not mounted: the kubelet refuses each Pod that uses it (mount "+
				"options are not supported for this volume type).", x.Name, field, strings.Join(options, ",")),
			Remedies: WithoutOption(x, -1)}}
	case *corev1.PersistentVolumeClaim:
		class, _ := c.classOf(x)
		if class == nil || x.Spec.VolumeName != "" {
			return nil
		}
		return c.classOptions(x, class, self)
	}
	return nil
}

// classOptions finds an option of a storage class that its provisioner refuses.
func (c *Cluster) classOptions(p *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, self Object) []Finding {
	e := c.newestEvent(self, func(e *corev1.Event) bool { return e.Reason == "ProvisioningFailed" })
	if e == nil {
		return nil
	}
	i, ok := RefusedOption(class.MountOptions, e.Message)
	if !ok {
		return nil
	}
	at := objectOf("StorageClass", class)
	f := Finding{Code: "MountOptionRefused", Stage: StageVolume, Object: at, Field: "spec.mountOptions",
		Value: strings.Join(class.MountOptions, ","), Related: []Object{self}}
	f.Field = "mountOptions"
	path := "/mountOptions"
	if i >= 0 {
		f.Value, f.Field = class.MountOptions[i], fmt.Sprintf("mountOptions[%d]", i)
		path += fmt.Sprintf("/%d", i)
	}
	f.Message = fmt.Sprintf("Claim %s has no volume: the provisioner refuses mount option %s of StorageClass %s: %s",
		p.Name, f.Value, class.Name, e.Message)
	f.Remedies = []Remedy{{Say: fmt.Sprintf("take %s out of the mountOptions of StorageClass %s", f.Value, class.Name),
		Run: []string{kubectl(at, "patch", fmt.Sprintf(`--type=json -p '[{"op":"remove","path":"%s"}]'`, path))}}}
	return []Finding{f}
}
