// Package transit tests package vault with the transit engine of Vault itself. It is a module of its own, which is not in
// go.work: Vault has hundreds of dependencies, and a licence that is not free, so nothing that is shipped may import it.
//
//	cd kms/vault/transit && GOWORK=off go test
package transit
