package core

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/internal/apiserver/registry/column"
	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
)

const mountableAnnotation = "kubernetes.io/enforce-mountable-secrets"

func serviceAccounts() kind.Kind {
	t := types[v1.ServiceAccount, v1.ServiceAccountList]()
	t.NoGenerate = true
	return kind.Kind{
		Version: "v1", Resource: "serviceaccounts", Singular: "serviceaccount", Kind: "ServiceAccount",
		Names: kind.Names{Short: []string{"sa"}},
		Types: t,
		Rules: kind.Rules{
			PrepareCreate: func(_ context.Context, o runtime.Object) { cleanSecretReferences(o.(*v1.ServiceAccount)) },
			PrepareUpdate: func(_ context.Context, o, _ runtime.Object) { cleanSecretReferences(o.(*v1.ServiceAccount)) },
			Warn: func(_ context.Context, o runtime.Object) []string {
				if _, ok := o.(*v1.ServiceAccount).Annotations[mountableAnnotation]; ok {
					return []string{"metadata.annotations[" + mountableAnnotation + "]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"}
				}
				return nil
			},
			AllowUnconditionalUpdate: true,
		},
		Table: kind.Table{
			Columns: []metav1.TableColumnDefinition{column.Name(), column.Age()},
			Row: row(func(s *v1.ServiceAccount, opt kind.RowOptions) []any {
				return []any{s.Name, column.Since(s.CreationTimestamp, opt.Now)}
			}),
		},
	}
}

// cleanSecretReferences keeps the names of secrets only: they are always of the account's namespace.
func cleanSecretReferences(s *v1.ServiceAccount) {
	for i := range s.Secrets {
		s.Secrets[i] = v1.ObjectReference{Name: s.Secrets[i].Name}
	}
}
