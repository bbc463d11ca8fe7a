module policy/card-payments

go 1.27.1
