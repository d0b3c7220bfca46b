package core

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

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
		Rules: resourcedef.Rules{
			PrepareCreate: func(_ context.Context, o runtime.Object) { cleanSecretReferences(o.(*v1.ServiceAccount)) },
			PrepareUpdate: func(_ context.Context, o, _ runtime.Object) {
				cleanSecretReferences(o.(*v1.ServiceAccount))
			},
			Warn: func(_ context.Context, o runtime.Object) []string {
				if _, ok := o.(*v1.ServiceAccount).Annotations[mountableAnnotation]; ok {
					return []string{"metadata.annotations[" + mountableAnnotation +
						"]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"}
				}
				return nil
			},
			AllowUnconditionalUpdate: true,
		},
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
