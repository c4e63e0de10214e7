package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
)

// listed returns the names of the tests that a group runs, group by group, and which of them must run alone. The suite
// has its groups as functions that do nothing but run tests and other groups, some of them under a setting. It can tell
// neither the names nor the outcomes, so that the functions are read here.
func listed(folder, group string) (names []string, alone map[string]bool, err error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(folder, "group-tests.go"), nil, 0)
	if err != nil {
		return nil, nil, err
	}
	groups := map[string]*ast.FuncDecl{}
	for _, decl := range parsed.Decls {
		if function, ok := decl.(*ast.FuncDecl); ok {
			groups[function.Name.Name] = function
		}
	}
	list := &list{groups: groups, alone: map[string]bool{}}
	if err := list.add(group); err != nil {
		return nil, nil, err
	}
	return list.names, list.alone, nil
}

type list struct {
	groups map[string]*ast.FuncDecl
	names  []string
	alone  map[string]bool
}

func (l *list) add(group string) error {
	function, ok := l.groups[group]
	if !ok {
		return fmt.Errorf("there is no group %s", group)
	}
	return l.addAll(function.Body.List)
}

func (l *list) addAll(statements []ast.Stmt) error {
	for _, statement := range statements {
		var err error
		switch s := statement.(type) {
		case *ast.IfStmt:
			var on bool
			if on, err = holds(s.Cond); err == nil && on {
				err = l.addAll(s.Body.List)
			}
		case *ast.ExprStmt:
			err = l.addCall(s.X)
		default:
			err = fmt.Errorf("a group has a statement of an unknown kind, %T", statement)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addCall takes `group(ts)`, `ts.Run(test)` and `ts.Sync(test)`.
func (l *list) addCall(expression ast.Expr) error {
	call, ok := expression.(*ast.CallExpr)
	if !ok || len(call.Args) != 1 {
		return fmt.Errorf("a group does something else than calling, %T", expression)
	}
	argument, ok := call.Args[0].(*ast.Ident)
	if !ok {
		return fmt.Errorf("a group passes on something without a name, %T", call.Args[0])
	}
	switch function := call.Fun.(type) {
	case *ast.Ident:
		return l.add(function.Name)
	case *ast.SelectorExpr:
		l.names = append(l.names, argument.Name)
		l.alone[argument.Name] = function.Sel.Name == "Sync"
		return nil
	}
	return fmt.Errorf("a group calls something without a name, %T", call.Fun)
}

// holds says whether tests under a condition run. No setting of the suite is on: they are for the stores that versitygw
// has behind it.
func holds(condition ast.Expr) (bool, error) {
	switch c := condition.(type) {
	case *ast.SelectorExpr:
		return false, nil
	case *ast.ParenExpr:
		return holds(c.X)
	case *ast.UnaryExpr:
		on, err := holds(c.X)
		return !on, err
	case *ast.BinaryExpr:
		left, err := holds(c.X)
		if err != nil {
			return false, err
		}
		right, err := holds(c.Y)
		if c.Op == token.LAND {
			return left && right, err
		}
		return left || right, err
	}
	return false, fmt.Errorf("a group has a condition of an unknown kind, %T", condition)
}
