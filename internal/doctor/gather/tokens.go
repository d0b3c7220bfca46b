package gather

import (
	"context"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/internal/doctor"
	"github.com/gantry-project/gantry/internal/explain/finding"
)

// tokenCodes are the findings about a Secret that say that it has no token of use.
var tokenCodes = map[string]bool{"ReferenceMissing": true, "TokenForAnother": true, "TokenNotIssued": true}

// Tokens asks for the Secrets of ServiceAccounts' tokens that have none of use; nil for who may not
// read Secrets. Their values are not kept.
func (s *Gatherer) Tokens(ctx context.Context, client kubernetes.Interface, now time.Time) []doctor.Token {
	secrets, err := client.CoreV1().Secrets("").List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("type", string(v1.SecretTypeServiceAccountToken)).String()})
	if err != nil {
		return nil
	}
	accounts, err := client.CoreV1().ServiceAccounts("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	c := &finding.Cluster{Now: now}
	c.Add("ServiceAccount")
	for i := range accounts.Items {
		c.Add("ServiceAccount", &accounts.Items[i])
	}
	for i := range secrets.Items {
		for k := range secrets.Items[i].Data {
			secrets.Items[i].Data[k] = nil
		}
		c.Add("Secret", &secrets.Items[i])
	}
	out := []doctor.Token{}
	for i := range secrets.Items {
		x := &secrets.Items[i]
		if x.Type != v1.SecretTypeServiceAccountToken { // a server that does not select by type
			continue
		}
		for _, f := range finding.Of(c, finding.Object{Kind: "Secret", Namespace: x.Namespace, Name: x.Name}) {
			if tokenCodes[f.Code] {
				out = append(out, doctor.Token{Secret: x.Namespace + "/" + x.Name, Text: f.Message, Fix: remedy(f)})
			}
		}
	}
	return out
}

// remedy is a finding's first remedy in a line.
func remedy(f finding.Finding) string {
	if len(f.Remedies) == 0 {
		return ""
	}
	r := f.Remedies[0]
	if len(r.Run) == 0 {
		return r.Say
	}
	return r.Say + ": `" + strings.Join(r.Run, "; ") + "`"
}
