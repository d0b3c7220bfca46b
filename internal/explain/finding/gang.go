package finding

import (
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// groupNameOf is the PodGroup that a Pod's spec names; empty: none.
func groupNameOf(s *corev1.PodSpec) string {
	if s == nil || s.SchedulingGroup == nil || s.SchedulingGroup.PodGroupName == nil {
		return ""
	}
	return *s.SchedulingGroup.PodGroupName
}

// gang finds a PodGroup that wants more Pods at once than there are.
func gang(c *Cluster, o metav1.Object, self Object) []Finding {
	g, ok := o.(*schedulingv1beta1.PodGroup)
	if spec, _ := podSpecOf(o); spec != nil {
		g, ok = get[*schedulingv1beta1.PodGroup](c, "PodGroup", self.Namespace, groupNameOf(spec))
	}
	if !ok || g.Spec.SchedulingPolicy.Gang == nil || !c.Read("Pod") {
		return nil
	}
	var have []string
	for _, p := range in[*corev1.Pod](c, "Pod", g.Namespace) {
		if groupNameOf(&p.Spec) == g.Name {
			have = append(have, p.Name)
		}
	}
	least := int(g.Spec.SchedulingPolicy.Gang.MinCount)
	if len(have) >= least {
		return nil
	}
	f := Finding{Code: "GangIncomplete", Stage: StageCreation, Object: objectOf("PodGroup", g),
		Field: "spec.schedulingPolicy.gang.minCount", Value: fmt.Sprint(least), Want: fmt.Sprint(len(have)),
		Numbers: map[string]string{"minCount": fmt.Sprint(least), "pods": fmt.Sprint(len(have))},
		Message: fmt.Sprintf("PodGroup %s wants %d Pods at once (minCount), and %d name it: none is placed before the "+
			"rest is there.", g.Name, least, len(have))}
	f.Remedies = []Remedy{{Say: fmt.Sprintf("make the %d Pods that are missing", least-len(have))}}
	if len(have) > 0 {
		f.Remedies = append(f.Remedies, Remedy{Say: fmt.Sprintf("or lower minCount to %d, if its work can be done "+
			"by so many", len(have)), Run: []string{fmt.Sprintf("kubectl -n %s patch podgroups.scheduling.k8s.io %s "+
			`--type=merge -p '{"spec":{"schedulingPolicy":{"gang":{"minCount":%d}}}}'`, g.Namespace, g.Name,
			len(have))}})
	}
	return []Finding{f}
}

// system finds a Pod for an operating system that no node has.
func system(c *Cluster, o metav1.Object, self Object) []Finding {
	spec, at := podSpecOf(o)
	if spec == nil || spec.OS == nil || !c.Read("Node") {
		return nil
	}
	var have []string
	for _, n := range list[*corev1.Node](c, "Node") {
		if s := n.Labels[corev1.LabelOSStable]; s != "" && !slices.Contains(have, s) {
			have = append(have, s)
		}
	}
	if len(have) == 0 || slices.Contains(have, string(spec.OS.Name)) {
		return nil
	}
	return []Finding{{Code: "SystemMissing", Stage: StagePlacement, Object: self, Field: at + ".os.name",
		Value: string(spec.OS.Name), Want: have[0], Message: fmt.Sprintf("%s %s is for nodes with %s "+
			"(spec.os.name), and there are nodes with %s only.", self.Kind, self.Name, spec.OS.Name, joined(have))}}
}

// usagesBySigner is the usage that a signer demands.
var usagesBySigner = map[string]certificatesv1.KeyUsage{
	certificatesv1.KubeAPIServerClientSignerName:        certificatesv1.UsageClientAuth,
	certificatesv1.KubeAPIServerClientKubeletSignerName: certificatesv1.UsageClientAuth,
	certificatesv1.KubeletServingSignerName:             certificatesv1.UsageServerAuth,
}

// signing finds a request whose signer is misspelt, or that lacks the usage which its signer
// demands.
func signing(_ *Cluster, o metav1.Object, self Object) []Finding {
	r, ok := o.(*certificatesv1.CertificateSigningRequest)
	if !ok || len(r.Status.Certificate) > 0 {
		return nil
	}
	want, known := usagesBySigner[r.Spec.SignerName]
	var names []string
	for n := range usagesBySigner {
		names = append(names, n)
	}
	if near, how := Near(r.Spec.SignerName, names); !known && near != "" {
		return []Finding{{Code: "SignerUnknown", Stage: StageControl, Object: self, Field: "spec.signerName",
			Value: r.Spec.SignerName, Want: near, Message: fmt.Sprintf("No controller of Kubernetes serves signer "+
				"%s, that "+
				"certificate request %s names. Perhaps %s was meant; %s.", r.Spec.SignerName, self.Name, near, how)}}
	}
	if !known || slices.Contains(r.Spec.Usages, want) {
		return unsignable(r, self)
	}
	return []Finding{{Code: "UsageMissing", Stage: StageControl, Object: self, Field: "spec.usages",
		Value: fmt.Sprint(r.Spec.Usages), Want: string(want), Message: fmt.Sprintf("Certificate request %s has the "+
			"usages "+
			"%v, and signer %s demands %q: it is not signed.", self.Name, r.Spec.Usages, r.Spec.SignerName, want),
		Remedies: []Remedy{{Say: fmt.Sprintf("make another request with the usage %q: a request cannot be changed",
			want)}}}}
}
