package finding

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// longestHostName is how long a host name of Linux may be.
const longestHostName = 64

// fullName finds a Pod that is to have its full name as host name, which is too long for one even
// without the cluster's domain: its sandbox is never made.
func fullName(c *Cluster, o metav1.Object, self Object) []Finding {
	spec, at := podSpecOf(o)
	if spec == nil || spec.SetHostnameAsFQDN == nil || !*spec.SetHostnameAsFQDN || spec.Subdomain == "" {
		return nil
	}
	host := spec.Hostname
	if _, isPod := o.(*corev1.Pod); host == "" && isPod {
		host = self.Name
	}
	full := fmt.Sprintf("%s.%s.%s.svc", host, spec.Subdomain, self.Namespace)
	if host == "" || len(full) < longestHostName { // a dot and a domain follow
		return nil
	}
	f := Finding{Code: "NameTooLong", Stage: StageNode, Object: self, Field: at + ".setHostnameAsFQDN", Value: "true",
		Want: "false", Numbers: map[string]string{"length": fmt.Sprint(len(full)), "max": fmt.Sprint(longestHostName)},
		Message: fmt.Sprintf("%s %s is to have its full name as host name (setHostnameAsFQDN), and %s has %d "+
			"characters before the cluster's domain: %d is the most in all, so its sandbox is never made.", self.Kind,
			self.Name, full,
			len(full), longestHostName)}
	f.setTo(c, f.Want)
	f.Remedies = append(f.Remedies, Remedy{Say: "or give it a shorter hostname or subdomain"})
	return []Finding{f}
}
