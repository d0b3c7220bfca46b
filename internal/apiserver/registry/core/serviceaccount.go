package core

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

const mountableAnnotation = "kubernetes.io/enforce-mountable-secrets"

func serviceAccounts() resourcedef.Kind {
	t := typed.NewNamespacedTypes[v1.ServiceAccount, v1.ServiceAccountList]()
	t.NoGenerate = true
	return resourcedef.Kind{
		Version: "v1", Resource: "serviceaccounts", Singular: "serviceaccount", Kind: "ServiceAccount",
		Names: resourcedef.Names{Short: []string{"sa"}},
		Types: t,
		Rules: typed.Rules[v1.ServiceAccount]{
			PrepareForCreate: func(_ context.Context, s *v1.ServiceAccount) { cleanSecretReferences(s) },
			PrepareForUpdate: func(s, _ *v1.ServiceAccount) { cleanSecretReferences(s) },
			Warn:             warnServiceAccount,
			WarnUpdate: func(s, old *v1.ServiceAccount) []string {
				if _, ok := old.Annotations[mountableAnnotation]; ok {
					return nil
				}
				return warnServiceAccount(s)
			},
			AllowUnconditionalUpdate: true,
		}.Untyped(),
		Table: resourcedef.Table{
			Columns: []metav1.TableColumnDefinition{printers.NameColumn(), printers.AgeColumn()},
			Row: typed.RowFunc(func(s *v1.ServiceAccount, opt resourcedef.RowOptions) []any {
				return []any{s.Name, printers.TimestampSince(s.CreationTimestamp, opt.Now)}
			}),
		},
	}
}

// cleanSecretReferences keeps the names of secrets only: they are always of the account's
// namespace.
func cleanSecretReferences(s *v1.ServiceAccount) {
	for i := range s.Secrets {
		s.Secrets[i] = v1.ObjectReference{Name: s.Secrets[i].Name}
	}
}

func warnServiceAccount(s *v1.ServiceAccount) []string {
	if _, ok := s.Annotations[mountableAnnotation]; ok {
		return []string{"metadata.annotations[" + mountableAnnotation +
			"]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"}
	}
	return nil
}
