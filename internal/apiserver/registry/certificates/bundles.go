package certificates

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/column"
	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
	"github.com/gantry-project/gantry/internal/apiserver/registry/template"
)

// bundles is the row of ClusterTrustBundles: authorities that Pods can mount (KEP-3257).
func bundles() kind.Kind {
	signer := func(o runtime.Object) string { return o.(*certificatesv1.ClusterTrustBundle).Spec.SignerName }
	k := kind.Kind{
		Group: certificatesv1.GroupName, Version: "v1", Resource: "clustertrustbundles", Singular: "clustertrustbundle", Kind: "ClusterTrustBundle",
		Types: types[certificatesv1.ClusterTrustBundle, certificatesv1.ClusterTrustBundleList](),
		Rules: kind.Rules{
			Validate: func(_ context.Context, o runtime.Object) field.ErrorList {
				return validateBundle(o.(*certificatesv1.ClusterTrustBundle), nil)
			},
			ValidateUpdate: func(_ context.Context, o, old runtime.Object) field.ErrorList {
				return validateBundle(o.(*certificatesv1.ClusterTrustBundle), old.(*certificatesv1.ClusterTrustBundle))
			},
			Fields: func(o runtime.Object) fields.Set { return fields.Set{"spec.signerName": signer(o)} },
		},
	}
	k.Types.NoGenerate, k.Types.ValidateMeta = true, bundleMeta
	k.Table = kind.Table{
		Columns: []metav1.TableColumnDefinition{column.Name(), column.Def("SignerName", certificatesv1.ClusterTrustBundleSpec{}.SwaggerDoc()["signerName"])},
		Row: row(func(b *certificatesv1.ClusterTrustBundle, _ kind.RowOptions) []any {
			name := b.Spec.SignerName
			orText(&name, "<none>")
			return []any{b.Name, name}
		}),
	}
	return k
}

// validateBundle checks a bundle. Certificates that an update leaves as they are were checked before.
func validateBundle(b, old *certificatesv1.ClusterTrustBundle) field.ErrorList {
	var errs field.ErrorList
	spec := field.NewPath("spec")
	if old != nil {
		errs = bundleMeta(b)
	}
	if b.Spec.SignerName != "" {
		errs = append(errs, kind.SignerName(b.Spec.SignerName, spec.Child("signerName"))...)
	}
	if old == nil || old.Spec.TrustBundle != b.Spec.TrustBundle {
		errs = append(errs, anchors(b.Spec.TrustBundle, spec.Child("trustBundle"))...)
	}
	if old != nil {
		errs = append(errs, validation.ValidateImmutableField(b.Spec.SignerName, old.Spec.SignerName, spec.Child("signerName"))...)
	}
	return errs
}

// bundleMeta judges metadata. A name has the signer's in front, with colons for slashes; without a signer it has no colon.
func bundleMeta(o runtime.Object) field.ErrorList {
	b, path := o.(*certificatesv1.ClusterTrustBundle), field.NewPath("metadata")
	errs := validation.ValidateObjectMeta(&b.ObjectMeta, false, func(name string, prefix bool) []string {
		return bundleName(name, b.Spec.SignerName, prefix)
	}, path)
	return append(errs, template.ValidateFinalizers(b.Finalizers, path.Child("finalizers"))...)
}

func bundleName(name, signer string, prefix bool) []string {
	if signer == "" {
		if strings.Contains(name, ":") {
			return []string{`ClusterTrustBundle without signer name must not have ":" in its name`}
		}
		return validation.NameIsDNSSubdomain(name, prefix)
	}
	start := strings.ReplaceAll(signer, "/", ":") + ":"
	rest, ok := strings.CutPrefix(name, start)
	if !ok {
		return []string{fmt.Sprintf("ClusterTrustBundle for signerName %s must be named with prefix %s", signer, start)}
	}
	return validation.NameIsDNSSubdomain(rest, prefix)
}

// anchors checks that a text is PEM blocks of authorities' certificates, each once.
func anchors(text string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	bad := func(format string, args ...any) {
		errs = append(errs, field.Invalid(at, "<value omitted>", fmt.Sprintf(format, args...)))
	}
	const mostBytes = 1 << 20
	if len(text) > mostBytes {
		return field.ErrorList{field.TooLong(at, "" /*unused*/, mostBytes)}
	}
	where := map[string][]int{}
	rest := []byte(text)
	for i := 0; ; i++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		switch c, err := x509.ParseCertificate(block.Bytes); {
		case block.Type != "CERTIFICATE":
			bad("entry %d has bad block type: %v", i, block.Type)
		case len(block.Headers) > 0:
			bad("entry %d has PEM block headers", i)
		case err != nil:
			bad("entry %d does not parse as X.509", i)
		case !c.IsCA:
			bad("entry %d does not have the CA bit set", i)
		case !c.BasicConstraintsValid:
			bad("entry %d has invalid basic constraints", i)
		default:
			where[string(block.Bytes)] = append(where[string(block.Bytes)], i)
		}
	}
	if len(errs) > 0 {
		return errs
	}
	if len(where) == 0 {
		bad("at least one trust anchor must be provided")
	}
	for _, block := range slices.Sorted(maps.Keys(where)) {
		if entries := where[block]; len(entries) > 1 {
			bad("duplicate trust anchor (indices %v)", entries)
		}
	}
	return errs
}
