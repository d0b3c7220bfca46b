package finding

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/shellquote"
)

// accountToken finds a Secret for a ServiceAccount's token that gets none: its account has another
// uid than it names, or its account is there and no controller has written a token. That an account
// is not there, the reference itself tells. Of the Secret only the keys are looked at.
func accountToken(c *Cluster, o metav1.Object, self Object) []Finding {
	s, ok := o.(*corev1.Secret)
	if !ok || s.Type != corev1.SecretTypeServiceAccountToken || s.DeletionTimestamp != nil {
		return nil
	}
	a, ok := get[*corev1.ServiceAccount](c, "ServiceAccount", s.Namespace, s.Annotations[corev1.ServiceAccountNameKey])
	if !ok {
		return nil
	}
	_, has := s.Data[corev1.ServiceAccountTokenKey]
	f := Finding{Stage: StageReference, Object: self, Related: []Object{objectOf("ServiceAccount", a)}}
	switch named := s.Annotations[corev1.ServiceAccountUIDKey]; {
	case named != "" && named != string(a.UID):
		f.Code, f.Field = "TokenForAnother", "metadata.annotations["+corev1.ServiceAccountUIDKey+"]"
		f.Value, f.Want = named, string(a.UID)
		f.Message = fmt.Sprintf("Secret %s is for the token of the ServiceAccount %s with uid %s, and the one that is "+
			"there has uid %s: ", s.Name, a.Name, named, a.UID)
		if has {
			f.Message += "its token is refused, and the token controller deletes it."
			f.Remedies = []Remedy{{Say: "make the Secret anew, without data and without annotation " +
				corev1.ServiceAccountUIDKey}}
			break
		}
		f.Message += "it gets none, and the token controller deletes it."
		f.Remedies = []Remedy{{Say: "have it be for the account that is there",
			Run: []string{kubectl(self, "annotate", corev1.ServiceAccountUIDKey+"-")}}}
	case !has && c.Now.Sub(s.CreationTimestamp.Time) > settleTime &&
		c.Now.Sub(a.CreationTimestamp.Time) > settleTime:
		f.Code, f.Field = "TokenNotIssued", "data["+corev1.ServiceAccountTokenKey+"]"
		f.Message = fmt.Sprintf("Secret %s is for a token of ServiceAccount %s, which is there, and nobody has "+
			"written one: the token controller does not run, or has no key that signs tokens.", s.Name, a.Name)
		f.Remedies = []Remedy{{Say: "start the controllers with --service-account-private-key-file"},
			{Say: "or ask for a token that ends",
				Run: []string{fmt.Sprintf("kubectl -n %s create token %s", s.Namespace, shellquote.Word(a.Name))}}}
	default:
		return nil
	}
	return []Finding{f}
}
