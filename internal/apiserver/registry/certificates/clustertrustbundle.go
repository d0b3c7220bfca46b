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

	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

// bundles is the row of ClusterTrustBundles: authorities that Pods can mount (KEP-3257).
func bundles() resourcedef.Kind {
	signer := func(o runtime.Object) string { return o.(*certificatesv1.ClusterTrustBundle).Spec.SignerName }
	k := resourcedef.Kind{
		Group: certificatesv1.GroupName, Version: "v1", Resource: "clustertrustbundles", Singular: "clustertrustbundle",
		Kind:  "ClusterTrustBundle",
		Types: typed.NewTypes[certificatesv1.ClusterTrustBundle, certificatesv1.ClusterTrustBundleList](),
		Rules: resourcedef.Rules{
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
	k.Table = resourcedef.Table{
		Columns: []metav1.TableColumnDefinition{printers.NameColumn(),
			printers.StringColumn("SignerName", certificatesv1.ClusterTrustBundleSpec{}.SwaggerDoc()["signerName"])},
		Row: typed.RowFunc(func(b *certificatesv1.ClusterTrustBundle, _ resourcedef.RowOptions) []any {
			name := b.Spec.SignerName
			typed.SetDefaultString(&name, "<none>")
			return []any{b.Name, name}
		}),
	}
	return k
}

// validateBundle checks a bundle. Certificates that an update leaves as they are were checked
// before.
func validateBundle(b, old *certificatesv1.ClusterTrustBundle) field.ErrorList {
	var errs field.ErrorList
	spec := field.NewPath("spec")
	if old != nil {
		errs = bundleMeta(b)
	}
	if b.Spec.SignerName != "" {
		errs = append(errs, resourcedef.ValidateSignerName(b.Spec.SignerName, spec.Child("signerName"))...)
	}
	if old == nil || old.Spec.TrustBundle != b.Spec.TrustBundle {
		errs = append(errs, validateTrustAnchors(b.Spec.TrustBundle, spec.Child("trustBundle"))...)
	}
	if old != nil {
		errs = append(errs, validation.ValidateImmutableField(b.Spec.SignerName, old.Spec.SignerName,
			spec.Child("signerName"))...)
	}
	return errs
}

// bundleMeta validates metadata. A name has the signer's in front, with colons for slashes; without
// a signer it has no colon.
func bundleMeta(o runtime.Object) field.ErrorList {
	b, path := o.(*certificatesv1.ClusterTrustBundle), field.NewPath("metadata")
	errs := validation.ValidateObjectMeta(&b.ObjectMeta, false, func(name string, prefix bool) []string {
		return bundleName(name, b.Spec.SignerName, prefix)
	}, path)
	return append(errs, podspec.ValidateFinalizers(b.Finalizers, path.Child("finalizers"))...)
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

// validateTrustAnchors checks that a text is PEM blocks of authorities' certificates, each once.
func validateTrustAnchors(text string, at *field.Path) field.ErrorList {
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
